// Makes a page from a made-up run: node make.mjs TEMPLATE OUTPUT '{"events": 4000, "traces": 1, "hostile": false, "empty": false}'
// Writes what is true at some events to OUTPUT.json: bytes by category, and in use.
import { readFileSync, writeFileSync } from "node:fs";
import { CATEGORIES, fill, gapsOf, makePage, makeTrace, truth } from "./synthetic.mjs";

const [template, output, asked = "{}"] = process.argv.slice(2);
const options = { events: 4000, traces: 1, hostile: false, empty: false, ...JSON.parse(asked) };
const traces = Array.from({ length: options.traces }, (_, i) => makeTrace({
    events: options.events, seed: i + 1, name: `rank ${i}`, leak: true, layers: options.events > 1e6 ? 48 : 12, hostile: options.hostile, owners: options.owners,
}));
if (options.hostile) {
    traces[0].marks = [{ name: "</script><script>document.body.dataset.hurt='yes'</script>\u202etxt.exe", t_ns: traces[0].t / 2, event: 100 }, { name: "x".repeat(10000), t_ns: traces[0].t / 3, event: 50 }];
    traces[0].losses = ["<img src=x onerror=\"document.body.dataset.hurt='yes'\"> was lost"];
}
const page = makePage(traces, {});
if (options.gaps) // shares of the run of which nothing is known
    page.head.traces[0].gaps = gapsOf(traces[0], options.gaps);
if (options.empty)
    page.head.traces[0].devices = [];
writeFileSync(output, fill(readFileSync(template, "utf8"), page));

if (options.events <= 1e5) {
    const states = truth(traces[0]);
    const rows = states.flatMap((state, change) => (change % 97 === 0 ? [{ event: traces[0].changes[change].event, driver: state.driver,
        categories: Object.fromEntries(CATEGORIES.map((name, c) => [name, state.categories[c]])) }] : []));
    writeFileSync(`${output}.json`, JSON.stringify(rows));
}
