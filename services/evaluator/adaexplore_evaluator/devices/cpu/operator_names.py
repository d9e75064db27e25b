"""Names of ATen operators by what kind of device kernel they launch."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Launch nothing.
VIEWS = words(
    """
    view _unsafe_view transpose t permute expand expand_as unsqueeze squeeze slice select detach detach_ alias split split_with_sizes
    chunk unbind narrow unflatten view_as as_strided movedim moveaxis swapaxes numpy_T mT mH diagonal lift_fresh lift_fresh_copy
    broadcast_tensors broadcast_to getitem unfold_view sym_size empty empty_like new_empty empty_strided
    """
)
# One kernel over the elements of the result.
POINTWISE = words(
    """
    add sub rsub mul div true_divide floor_divide remainder fmod pow square sqrt rsqrt reciprocal neg abs sign exp exp2 expm1 log log2
    log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid logit erf erfc relu relu6 leaky_relu elu celu selu gelu silu
    mish softplus softsign hardtanh hardswish hardsigmoid hardshrink softshrink threshold prelu rrelu log_sigmoid glu clamp clamp_min
    clamp_max clip minimum maximum fmin fmax where masked_fill eq ne lt le gt ge logical_and logical_or logical_not logical_xor
    bitwise_and bitwise_or bitwise_not bitwise_xor isnan isinf isfinite floor ceil round trunc frac lerp addcmul addcdiv copy _to_copy
    to clone contiguous type_as zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full arange scalar_tensor fill
    zero tril triu cat concat stack hstack vstack repeat repeat_interleave tile roll flip embedding index index_select gather scatter
    one_hot dropout native_dropout bernoulli feature_dropout alpha_dropout reshape flatten ravel pad constant_pad_nd nan_to_num float
    double half bfloat16 cross outer ger pixel_shuffle pixel_unshuffle channel_shuffle masked_select heaviside hypot xlogy deg2rad
    meshgrid
    """
)
# Kernels that combine the elements of rows.
REDUCTIONS = words(
    """
    sum mean amax amin max min prod any all argmax argmin var std norm linalg_vector_norm frobenius_norm nansum count_nonzero
    layer_norm native_layer_norm rms_norm _fused_rms_norm softmax _softmax log_softmax _log_softmax _safe_softmax logsumexp cumsum
    cumprod logcumsumexp nll_loss nll_loss_nd nll_loss_forward nll_loss2d aminmax var_mean std_mean dist trace
    """
)
# Matrix products of a library.
PRODUCTS = words(
    """
    linear addmm mm bmm matmul baddbmm addbmm mv addmv dot vdot inner einsum tensordot chain_matmul linalg_multi_dot _scaled_mm
    _int_mm bilinear kron
    """
)
# Convolutions of a library.
CONVOLUTIONS = words(
    """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution _convolution cudnn_convolution
    cudnn_convolution_transpose conv_depthwise2d _conv_depthwise2d miopen_convolution
    """
)
# Fused attention of a library.
ATTENTION = words(
    """
    scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_cudnn_attention _scaled_dot_product_attention_math
    """
)
# One kernel in which each result reads a window of the input.
WINDOWS = words(
    """
    max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d adaptive_max_pool2d upsample_nearest2d
    upsample_bilinear2d unfold fold im2col col2im grid_sampler interpolate
    """
)
# Special functions an element costs: one exponential, root or reciprocal; a few; or a chain of them.
ONE_SPECIAL_FUNCTION = words(
    """
    exp exp2 log log2 log1p sqrt rsqrt reciprocal div sin cos softmax _softmax log_softmax _log_softmax logsumexp
    """
)
TWO_SPECIAL_FUNCTIONS = words("tanh sigmoid silu gelu pow erf elu cross_entropy_loss log_sigmoid")
FOUR_SPECIAL_FUNCTIONS = words("mish softplus")
# Normalisations: statistics of rows (or channels), then a pass over the elements.
NORMS = words(
    """
    layer_norm native_layer_norm rms_norm _fused_rms_norm group_norm native_group_norm batch_norm native_batch_norm
    _native_batch_norm_legit _batch_norm_with_update cudnn_batch_norm instance_norm
    """
)
# Losses that are a term for each element and a reduction of the terms.
LOSSES = words(
    """
    mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss kl_div
    """
)
SCANS = words("cumsum cumprod logcumsumexp")
