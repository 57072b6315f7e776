// The suites cannot show a token, so this stands between them and the bridge and shows it.
// node proxy.mjs BRIDGE-PORT TOKEN: prints its own port, then passes every request on.
import http from "node:http";

const [port, token] = process.argv.slice(2);
const server = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const options = { host: "127.0.0.1", port, path: request.url, method: request.method, headers };
  const onward = http.request(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
