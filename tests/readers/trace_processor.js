// Runs the trace processor of Perfetto's UI: reads a stream of its requests from one file, writes its replies to another.
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, requests, replies] = process.argv.slice(2);
const out = fs.openSync(replies, "w"), exit = process.exit.bind(process);
const read = url => new Uint8Array(fs.readFileSync(path.join(folder, path.basename(String(url)))));
const port = {postMessage: reply => fs.writeSync(out, reply)};

// What a browser's worker has, and Node has not.
Object.assign(globalThis, {
    self: globalThis, location: {href: "file:///engine_bundle.js"}, WorkerGlobalScope: class {}, importScripts() {},
    XMLHttpRequest: class {
        open(_, url) { this.url = url; }
        send() { this.status = 200; this.response = read(this.url).buffer; this.onload?.(); }
    },
});
delete globalThis.process; // it would be taken for Node's
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), {filename: "engine_bundle.js"});
self.onmessage({data: port});

setImmediate(() => { // when it has begun
    port.onmessage({data: new Uint8Array(fs.readFileSync(requests))});
    exit(0);
});
