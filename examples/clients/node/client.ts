// Starts a search, watches it, fetches the best kernel, handles a typed error, and cancels another search.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import type { ProtoGrpcType } from "./build/types/controller.js";
import type { ControllerServiceClient } from "./build/types/adaexplore/controller/v1/ControllerService.js";
import type { SearchEvent__Output } from "./build/types/adaexplore/controller/v1/SearchEvent.js";
import type { ErrorInfo__Output } from "./build/types/google/rpc/ErrorInfo.js";
import type { Status__Output } from "./build/types/google/rpc/Status.js";

const WATCH_DEADLINE_MS = 3_600_000;
const [ours, shared] = ["../../../../../protos/", "../../../"].map((folder) => new URL(folder, import.meta.url).pathname);
const api = "adaexplore/controller/v1/controller";
const protos = loadSync([`${api}.proto`, "google/rpc/error_details.proto", "google/rpc/status.proto"], {
  includeDirs: [ours, shared],
  ...{ keepCase: true, longs: String, enums: String, oneofs: true }, // as the types were generated
});

function credentials(): grpc.ChannelCredentials {
  const { ADAEXPLORE_CA_FILE: ca, ADAEXPLORE_TOKEN_FILE: token } = process.env;
  if (!ca) return grpc.credentials.createInsecure(); // servers without TLS are on loopback
  const tls = grpc.credentials.createSsl(readFileSync(ca));
  if (!token) return tls;
  const bearer = grpc.credentials.createFromMetadataGenerator((_, done) => {
    const metadata = new grpc.Metadata();
    metadata.set("authorization", `Bearer ${readFileSync(token, "utf8").trim()}`);
    done(null, metadata);
  });
  return grpc.credentials.combineChannelCredentials(tls, bearer);
}

/** Turns a unary method with a callback into a promise; its deadline and retries are in the service config. */
function call<Q, A>(method: (request: Q, done: grpc.requestCallback<A>) => unknown, request: Q): Promise<A> {
  return new Promise((resolve, reject) => method(request, (error, answer) => (error ? reject(error) : resolve(answer!))));
}

/** The reason that the service gave in `grpc-status-details-bin`, empty if it gave none. */
function reason(error: grpc.ServiceError): string {
  const [details] = error.metadata.get("grpc-status-details-bin");
  if (!(details instanceof Buffer)) return "";
  const decode = <T>(name: string, bytes: Buffer) => (protos[name] as unknown as { deserialize(bytes: Buffer): T }).deserialize(bytes);
  const status = decode<Status__Output>("google.rpc.Status", details);
  const info = status.details?.find((detail) => detail.type_url?.endsWith("/google.rpc.ErrorInfo"));
  return info ? (decode<ErrorInfo__Output>("google.rpc.ErrorInfo", info.value as Buffer).reason ?? "") : "";
}

function show(event: SearchEvent__Output): void {
  const node = event.node_recorded?.node;
  if (node) console.error(`step ${node.step}: ${node.evaluation?.verdict ?? node.candidate?.outcome}${event.node_recorded?.best ? ", best" : ""}`);
  else if (event.state_changed) console.error(event.state_changed.search?.state);
}

/** Follows a search to its end; a broken stream is taken up again after the last event seen. */
async function watch(client: ControllerServiceClient, name: string): Promise<void> {
  for (let after = "0", failures = 0; ; failures++) {
    try {
      for await (const { event } of client.watchSearch({ name, after_sequence: after }, { deadline: Date.now() + WATCH_DEADLINE_MS })) {
        show(event);
        [after, failures] = [event.sequence, 0];
      }
      return;
    } catch (error) {
      if ((error as grpc.ServiceError).code !== grpc.status.UNAVAILABLE || failures >= 60) throw error;
      await sleep(1000);
    }
  }
}

async function main(address: string, taskFile: string, steps: number): Promise<void> {
  const { adaexplore } = grpc.loadPackageDefinition(protos) as unknown as ProtoGrpcType;
  const client = new adaexplore.controller.v1.ControllerService(address, credentials(), {
    "grpc.service_config": readFileSync(`${ours}${api}_grpc_service_config.json`, "utf8"),
  });
  const task = { name: basename(taskFile), source: readFileSync(taskFile, "utf8") };
  const start = async (max_steps: number) => {
    const spec = { task, device: { kind: "DEVICE_KIND_CPU" as const }, budget: { max_steps }, seed: 1 };
    return (await call(client.startSearch.bind(client), { request_id: randomUUID(), spec })).search!.name!;
  };
  const name = await start(steps);
  await watch(client, name);
  const { search } = await call(client.getSearch.bind(client), { name });
  if (search!.best_node) {
    const best = await call(client.getNode.bind(client), { name: search!.best_node });
    console.error(`best: ${search!.best_node}, ${search!.best_speedup?.toFixed(2)} times the best baseline`);
    console.log(best.node!.candidate!.kernel!.source);
  }
  await call(client.getSearch.bind(client), { name: "searches/none" }).catch((error) => {
    console.error(`error: ${grpc.status[error.code]} ${reason(error)}: ${error.details}`);
  });
  const other = await call(client.cancelSearch.bind(client), { name: await start(1000) });
  console.error(`cancelled: ${other.search!.state}`);
  client.close();
}

const [address, taskFile, steps] = process.argv.slice(2);
await main(address, taskFile, Number(steps));
