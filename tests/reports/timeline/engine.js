// Perfetto's trace processor, as its UI has it in WebAssembly, as a program: requests from stdin, replies to stdout.
//
// node engine.js FOLDER: the folder has engine_bundle.js and the .wasm beside it. A request is its length (4 bytes,
// little endian) and the bytes of a TraceProcessorRpcStream; replies are such streams, as they come.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const aside = (...words) => process.stderr.write(words.join(" ") + "\n");

// The bundle is a worker of a browser, and loads its module as those do.
class XMLHttpRequest {
  open(_, name) {
    this.name = path.basename(name);
  }
  send() {
    const data = fs.readFileSync(path.join(folder, this.name));
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
  }
}

function reply(bytes) {
  const data = Buffer.from(bytes);
  for (let sent = 0; sent < data.length; ) sent += fs.writeSync(1, data, sent);
}

function read(count) {
  const data = Buffer.alloc(count);
  for (let got = 0; got < count; ) {
    const more = fs.readSync(0, data, got, count - got, null);
    if (!more) process.exit(0);
    got += more;
  }
  return data;
}

const port = { postMessage: reply };
const self = { location: { href: "" } };
const world = {
  self,
  XMLHttpRequest,
  TextDecoder,
  TextEncoder,
  crypto,
  performance,
  setTimeout,
  importScripts() {},
  WorkerGlobalScope: class {},
  location: { href: "" },
  console: { log: aside, warn: aside, error: aside },
};
vm.createContext(world);
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), world);
self.onmessage({ data: port });
// The module begins to run when this script is through.
setTimeout(() => {
  const Bytes = vm.runInContext("Uint8Array", world);
  for (;;) port.onmessage({ data: new Bytes(read(read(4).readUInt32LE())) });
}, 0);
