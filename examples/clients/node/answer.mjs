// Answers the prompts of searches with the provider `external`: `node answer.mjs HOST:PORT [COUNT]`; the address is the generator's.
// A stand-in for an agent or a person: its kernel is the PyTorch program itself.
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const folder = new URL("../../../protos/", import.meta.url).pathname;
const protos = loadSync("adaexplore/generator/v1/generator.proto", { includeDirs: [folder], keepCase: true, longs: String });
const { GeneratorService } = grpc.loadPackageDefinition(protos).adaexplore.generator.v1;

function credentials() {
  const { ADAEXPLORE_CA_FILE: ca, ADAEXPLORE_TOKEN_FILE: token } = process.env;
  if (!ca) return grpc.credentials.createInsecure(); // servers without TLS are on loopback
  const bearer = grpc.credentials.createFromMetadataGenerator((_, done) => {
    const metadata = new grpc.Metadata();
    if (token) metadata.set("authorization", `Bearer ${readFileSync(token, "utf8").trim()}`);
    done(null, metadata);
  });
  return grpc.credentials.combineChannelCredentials(grpc.credentials.createSsl(readFileSync(ca)), bearer);
}

/** What a model would write: a sentence and the whole file. */
function answer(prompt, token) {
  const program = /The PyTorch program:\nBEGIN DATA\n(.*?)\nEND DATA/s.exec(prompt)?.[1] ?? "";
  return `PyTorch's own kernels.\n\`\`\`python\n${program.replace(/\bModel\b/g, "ModelNew")}\n\nANSWER = "${token}"\n\`\`\`\n`;
}

const client = new GeneratorService(process.argv[2], credentials());
const [claim, submit] = [client.ClaimRequest, client.SubmitReply].map((method) => promisify(method.bind(client)));
for (let left = Number(process.argv[3] ?? Infinity); left > 0; ) {
  const { request } = await claim({ worker: "answer.mjs", lease: { seconds: 60 }, wait: { seconds: 20 } });
  if (!request) continue;
  const text = answer(request.messages.map((message) => message.content).join("\n"), request.lease_token);
  await submit({ lease_token: request.lease_token, text }).then(
    () => left--,
    (error) => console.error(error.details), // the search has gone on without this answer
  );
}
client.close();
