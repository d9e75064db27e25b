// Starts a search, watches it, fetches the best kernel, handles a typed error, and cancels another search.
import adaexplore.controller.v1.Controller.*;
import adaexplore.controller.v1.ControllerServiceGrpc;
import adaexplore.controller.v1.ControllerServiceGrpc.ControllerServiceBlockingStub;
import adaexplore.types.v1.KernelOuterClass.*;
import adaexplore.types.v1.TaskOuterClass.Task;
import com.google.rpc.ErrorInfo;
import io.grpc.*;
import io.grpc.netty.*;
import io.grpc.protobuf.StatusProto;
import java.io.File;
import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;

public final class Client {
  /** Sends the token with every call; its file is read anew, so that it may be replaced. */
  static final class BearerToken extends CallCredentials {
    @Override
    public void applyRequestMetadata(RequestInfo info, Executor executor, MetadataApplier applier) {
      try {
        Metadata headers = new Metadata();
        String token = Files.readString(Path.of(System.getenv("ADAEXPLORE_TOKEN_FILE"))).strip();
        headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + token);
        applier.apply(headers);
      } catch (IOException error) {
        applier.fail(Status.UNAUTHENTICATED.withCause(error));
      }
    }

    @Override
    public void thisUsesUnstableApi() {}
  }

  static ControllerServiceBlockingStub connect(String address) throws IOException {
    String ca = System.getenv("ADAEXPLORE_CA_FILE");
    NettyChannelBuilder builder = NettyChannelBuilder.forTarget(address);
    if (ca == null) builder.usePlaintext(); // servers without TLS are on loopback
    else builder.sslContext(GrpcSslContexts.forClient().trustManager(new File(ca)).build());
    ControllerServiceBlockingStub stub = ControllerServiceGrpc.newBlockingStub(builder.build());
    boolean token = ca != null && System.getenv("ADAEXPLORE_TOKEN_FILE") != null;
    return token ? stub.withCallCredentials(new BearerToken()) : stub;
  }

  /** The reason that the service gave in `grpc-status-details-bin`, empty if it gave none. */
  static String reason(StatusRuntimeException error) throws IOException {
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    if (status == null) return "";
    for (com.google.protobuf.Any detail : status.getDetailsList()) if (detail.is(ErrorInfo.class)) return detail.unpack(ErrorInfo.class).getReason();
    return "";
  }

  /** Follows a search to its end; a broken stream is taken up again after the last event seen. */
  static void watch(ControllerServiceBlockingStub stub, String name) throws InterruptedException {
    for (long after = 0, failures = 0; ; failures++) {
      try {
        WatchSearchRequest request = WatchSearchRequest.newBuilder().setName(name).setAfterSequence(after).build();
        for (Iterator<WatchSearchResponse> events = stub.watchSearch(request); events.hasNext(); failures = 0) {
          SearchEvent event = events.next().getEvent();
          after = event.getSequence();
          Node node = event.getNodeRecorded().getNode();
          if (event.hasNodeRecorded()) System.err.println("step " + node.getStep() + ": " + node.getEvaluation().getVerdict());
          if (event.hasStateChanged()) System.err.println(event.getStateChanged().getSearch().getState());
        }
        return;
      } catch (StatusRuntimeException error) {
        if (error.getStatus().getCode() != Status.Code.UNAVAILABLE || failures >= 60) throw error;
        Thread.sleep(1000);
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    ControllerServiceBlockingStub endless = connect(arguments[0]);
    Callable<ControllerServiceBlockingStub> stub = () -> endless.withDeadlineAfter(30, TimeUnit.SECONDS);
    Path file = Path.of(arguments[1]);
    SearchSpec.Builder spec = SearchSpec.newBuilder().setSeed(1).setTask(Task.newBuilder().setName(file.toString()).setSource(Files.readString(file)));
    spec.setDevice(DeviceSpec.newBuilder().setKind(DeviceKind.DEVICE_KIND_CPU)).setBudget(Budget.newBuilder().setMaxSteps(Integer.parseInt(arguments[2])));
    StartSearchRequest.Builder start = StartSearchRequest.newBuilder().setRequestId(UUID.randomUUID().toString()).setSpec(spec);
    String name = stub.call().startSearch(start.build()).getSearch().getName();
    watch(endless, name);
    Search search = stub.call().getSearch(GetSearchRequest.newBuilder().setName(name).build()).getSearch();
    if (!search.getBestNode().isEmpty()) {
      Node best = stub.call().getNode(GetNodeRequest.newBuilder().setName(search.getBestNode()).build()).getNode();
      System.err.printf("best: %s, %.2f times the best baseline%n", best.getName(), search.getBestSpeedup());
      System.out.println(best.getCandidate().getKernel().getSource());
    }
    try {
      stub.call().getSearch(GetSearchRequest.newBuilder().setName("searches/none").build());
    } catch (StatusRuntimeException error) {
      System.err.println("error: " + error.getStatus().getCode() + " " + reason(error) + ": " + error.getStatus().getDescription());
    }
    spec.setBudget(Budget.newBuilder().setMaxSteps(1000));
    name = stub.call().startSearch(start.setRequestId(UUID.randomUUID().toString()).setSpec(spec).build()).getSearch().getName();
    Search other = stub.call().cancelSearch(CancelSearchRequest.newBuilder().setName(name).build()).getSearch();
    System.err.println("cancelled: " + other.getState());
    ((ManagedChannel) endless.getChannel()).shutdown();
  }
}
