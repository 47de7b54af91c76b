// Reads traces out of the page: in a worker where one may start, so that the page never stops; else in slices.

import { columnsOf, DataError, fromBase64, inflate, readTables, run } from "./data.js";
import { gapChanges } from "./gaps.js";
import { contributions, makeSums } from "./walk.js";

// `breathe(done)` is called with the share of the work that is done, and may wait.
export class Reader {
    constructor(head, base64) {
        this.head = head;
        this.base64 = base64;
        this.bytes = null;
    }

    all() {
        if (!this.bytes) {
            this.bytes = fromBase64(this.base64);
            this.base64 = null;
        }
        return this.bytes;
    }

    // The text of a document; of a table its columns.
    async text(blob, name) {
        const raw = await inflate(this.all(), blob, name);
        return blob.columns ? run(columnsOf(raw, blob, name), () => {}) : new TextDecoder().decode(raw);
    }

    async trace(index, breathe) {
        const trace = this.head.traces[index];
        const strings = await this.text(trace.blobs.strings, "strings");
        const words = JSON.parse(strings);
        const parts = 1 + trace.devices.length;
        const { columns, named } = await readTables(this.all(), trace, (share) => breathe(share / parts));
        columns.gaps = gapChanges(trace.gaps, columns.event);
        columns.devices = [];
        for (const device of trace.devices) {
            const done = 1 + columns.devices.length;
            const table = contributions(named.classes, trace.categories, device.index, words);
            const sums = await run(makeSums(columns, table, device.has_blocks), (share) => breathe((done + share) / parts));
            columns.devices.push({ table, sums });
        }
        return { columns, named, strings, sources: await this.text(trace.blobs.sources, "sources") };
    }
}

// ---- In a worker ----

function buffersOf(value, found) {
    if (ArrayBuffer.isView(value))
        found.add(value.buffer);
    else if (value && typeof value === "object")
        Object.values(value).forEach((part) => buffersOf(part, found));
    return found;
}

export function serve(port) {
    let reader = null;
    port.postMessage("ready");
    port.onmessage = async ({ data, ports: [asker] }) => {
        try {
            if (data.head) {
                reader = new Reader(data.head, data.base64);
                return;
            }
            const result = data.blob ? await reader.text(data.blob, data.name)
                : await reader.trace(data.trace, (done) => asker.postMessage({ done }));
            asker.postMessage({ result }, data.blob ? [] : [...buffersOf(result, new Set())]);
        } catch (error) {
            const known = error instanceof DataError;
            asker.postMessage({ error: known ? error.message : `The page's data could not be read: ${error.message}` });
        }
    };
}

class RemoteReader {
    constructor(worker, head, base64) {
        this.worker = worker;
        worker.postMessage({ head, base64 });
    }

    call(message, breathe) {
        return new Promise((resolve, reject) => {
            const { port1, port2 } = new MessageChannel(); // of this question alone
            port1.onmessage = ({ data: { done, error, result } }) => {
                if (done !== undefined)
                    return breathe(done);
                port1.close();
                return error ? reject(new DataError(error)) : resolve(result);
            };
            this.worker.postMessage(message, [port2]);
        });
    }

    text(blob, name) {
        return this.call({ blob, name });
    }

    trace(index, breathe) {
        return this.call({ trace: index }, breathe);
    }
}

// A worker that answered. Pages opened from a disk may not be allowed to start one, and say so only later.
async function startWorker(source) {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    try {
        const worker = new Worker(address);
        await new Promise((resolve, reject) => {
            const late = setTimeout(() => reject(new Error("no answer")), 2000);
            worker.onerror = reject;
            worker.onmessage = () => {
                clearTimeout(late);
                resolve();
            };
        });
        return worker;
    } catch {
        return null;
    } finally {
        URL.revokeObjectURL(address);
    }
}

class SlicedReader extends Reader {
    async trace(index, breathe) {
        let rested = performance.now();
        return super.trace(index, async (done) => {
            if (performance.now() - rested < 30)
                return;
            breathe(done);
            await new Promise((resolve) => setTimeout(resolve));
            rested = performance.now();
        });
    }
}

// `source`: the program itself, which serves when it finds itself in a worker. "" = do not try.
export async function openReader(head, base64, source) {
    const worker = source && await startWorker(source);
    return worker ? new RemoteReader(worker, head, base64) : new SlicedReader(head, base64);
}
