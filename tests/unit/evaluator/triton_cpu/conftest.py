from collections.abc import Callable, Iterator

import pytest
from adaexplore_evaluator.runner.triton_cpu import CompileCache, TritonSession

Sessions = Callable[..., TritonSession]


@pytest.fixture(scope="session", autouse=True)
def triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.fixture(scope="session")
def compile_cache() -> CompileCache:
    return CompileCache()


@pytest.fixture
def session(compile_cache: CompileCache) -> Sessions:
    """Makes sessions that share compiled kernels; judge mode on sm_90 unless told otherwise."""

    def make(**options: object) -> TritonSession:
        given: dict[str, object] = {"mode": "judge", "target": "sm_90", "order_seed": 11, "compile_cache": compile_cache, **options}
        return TritonSession(**given)  # type: ignore[arg-type]

    return make
