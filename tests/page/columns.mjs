// Prints the allocations of a page as its own program reads them, one per line: begin, end, class, bytes, address.
import { readFileSync } from "node:fs";
import { fromBase64, readTables } from "../../analyzer/view/html/page/src/data.js";

const page = readFileSync(process.argv[2], "utf8");
const script = (id) => page.split(`id="${id}">`)[1].split("</script>")[0];
const head = JSON.parse(script("vramtrace-page"));
const { columns } = await readTables(fromBase64(script("vramtrace-data")), head.traces[0], async () => {});
const lines = Array.from(columns.begin, (begin, i) =>
    [begin, columns.end[i], columns.klass[i], columns.bytes[i], columns.address[i]].join(" "));
process.stdout.write(lines.join("\n") + "\n");
