// One client, by hand or of the SDK: asks so often, so many at a time, and tells its CPU time.
import process from "node:process";

const [which, path, type, count, inFlight, data] = process.argv.slice(2);
const { connect } = await import(which === "hand" ? "./hand-client.mjs" : "@mainspring/sdk");
const client = await connect(which === "hand" ? path : { socket: path });
const payload = JSON.parse(data);

async function ask(total) {
  let left = total;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      await client.query(type, payload);
    }
  };
  await Promise.all(Array.from({ length: Number(inFlight) }, worker));
}

await ask(Math.ceil(Number(count) / 5)); // Until it is compiled.
const [cpu, start] = [process.cpuUsage(), performance.now()];
process.stdout.write("warm\n");
await ask(Number(count));
const took = performance.now() - start;
const used = process.cpuUsage(cpu);
process.stdout.write(`${JSON.stringify({ tookMs: took, cpuUs: used.user + used.system })}\n`);
await client.close();
