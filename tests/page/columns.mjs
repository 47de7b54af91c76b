// Prints the allocations of a page as its own program reads them, one per line: begin, end, class, bytes, address.
import { readFileSync } from "node:fs";
import { fromBase64, inflate, readColumns } from "../../analyzer/view/html/page/src/data.js";

const page = readFileSync(process.argv[2], "utf8");
const script = (id) => page.split(`id="${id}">`)[1].split("</script>")[0];
const head = JSON.parse(script("vramtrace-page"));
const all = fromBase64(script("vramtrace-data"));
const [trace] = head.traces;
const names = JSON.parse(new TextDecoder().decode(await inflate(all, trace.blobs.names, "names")));
const columns = await readColumns(all, trace, names.classes.length, async () => {});
const lines = Array.from(columns.begin, (begin, i) =>
    [begin, columns.end[i], columns.klass[i], columns.sizes[columns.size[i]], columns.address[i] * 256].join(" "));
process.stdout.write(lines.join("\n") + "\n");
