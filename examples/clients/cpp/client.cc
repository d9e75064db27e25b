// Starts a search, watches it, fetches the best kernel, handles a typed error, and cancels another search.
#include <grpcpp/grpcpp.h>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>
#include "adaexplore/controller/v1/controller.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
namespace api = adaexplore::controller::v1;
namespace types = adaexplore::types::v1;
using Stub = api::ControllerService::Stub;
std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}
struct BearerToken : grpc::MetadataCredentialsPlugin {
  using Ref = grpc::string_ref;
  grpc::Status GetMetadata(Ref, Ref, const grpc::AuthContext&, std::multimap<std::string, std::string>* headers) override {
    std::string token;  // read anew for every call, so that the file may be replaced
    std::ifstream(std::getenv("ADAEXPLORE_TOKEN_FILE")) >> token;
    return headers->insert({"authorization", "Bearer " + token}), grpc::Status::OK;
  }
};

std::shared_ptr<grpc::ChannelCredentials> credentials() {
  const auto [ca, token] = std::pair(std::getenv("ADAEXPLORE_CA_FILE"), std::getenv("ADAEXPLORE_TOKEN_FILE"));
  if (!ca) return grpc::InsecureChannelCredentials();  // servers without TLS are on loopback
  auto tls = grpc::SslCredentials({.pem_root_certs = read(ca), .pem_private_key = "", .pem_cert_chain = ""});
  return !token ? tls : grpc::CompositeChannelCredentials(tls, grpc::MetadataCredentialsFromPlugin(std::make_unique<BearerToken>()));
}

// Prints a status and the reason in its details, which travel as `grpc-status-details-bin`.
int report(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  details.ParseFromString(status.error_details());
  for (const auto& detail : details.details()) detail.UnpackTo(&info);
  std::cerr << "error: " << status.error_code() << " " << info.reason() << ": " << status.error_message() << "\n";
  return 1;
}

// Calls a method whose request is a name, or throws its status; deadline and retries are in the service config.
template <typename Response, typename Request>
Response call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const std::string& name) {
  auto [context, request, response] = std::tuple<grpc::ClientContext, Request, Response>();
  request.set_name(name);
  if (auto status = (stub.*method)(&context, request, &response); !status.ok()) throw status;
  return response;
}

// Follows a search to its end; a broken stream is taken up again after the last event seen.
std::string watch(Stub& stub, const std::string& name) {
  api::WatchSearchRequest request;
  request.set_name(name);
  for (int failures = 0;; failures++) {
    grpc::ClientContext context;
    api::WatchSearchResponse response;
    auto stream = stub.WatchSearch(&context, request);
    for (; stream->Read(&response); failures = 0) {
      const auto& [node, search] = std::tie(response.event().node_recorded().node(), response.event().state_changed().search());
      request.set_after_sequence(response.event().sequence());
      if (node.step()) std::cerr << "step " << node.step() << ": " << types::Verdict_Name(node.evaluation().verdict()) << "\n";
      if (search.state()) std::cerr << api::SearchState_Name(search.state()) << "\n";
    }
    if (auto status = stream->Finish(); status.ok()) return name;
    else if (status.error_code() != grpc::StatusCode::UNAVAILABLE || failures >= 60) throw status;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

std::string start(Stub& stub, const std::string& file, int steps) {
  auto [context, request, response] = std::tuple<grpc::ClientContext, api::StartSearchRequest, api::StartSearchResponse>();
  request.set_request_id("cpp-" + std::to_string(std::random_device()()) + "-" + std::to_string(std::random_device()()));
  request.mutable_spec()->mutable_task()->set_source(read(file));
  request.mutable_spec()->mutable_device()->set_kind(types::DEVICE_KIND_CPU);
  request.mutable_spec()->mutable_budget()->set_max_steps(steps);
  if (auto status = stub.StartSearch(&context, request, &response); !status.ok()) throw status;
  return response.search().name();
}

int main(int, char** argv) try {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(read(SERVICE_CONFIG));
  auto stub = api::ControllerService::NewStub(grpc::CreateCustomChannel(argv[1], credentials(), arguments));
  auto name = watch(*stub, start(*stub, argv[2], std::stoi(argv[3])));
  if (auto search = call(*stub, &Stub::GetSearch, name).search(); !search.best_node().empty()) {
    std::cerr << "best: " << search.best_node() << ", " << search.best_speedup() << " times the best baseline\n";
    std::cout << call(*stub, &Stub::GetNode, search.best_node()).node().candidate().kernel().source() << "\n";
  }
  try {
    call(*stub, &Stub::GetSearch, "searches/none");
  } catch (const grpc::Status& status) {
    report(status);
  }
  const auto other = call(*stub, &Stub::CancelSearch, start(*stub, argv[2], 1000));
  std::cerr << "cancelled: " << api::SearchState_Name(other.search().state()) << "\n";
} catch (const grpc::Status& status) {
  return report(status);
}
