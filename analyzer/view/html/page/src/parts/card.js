// Every byte in use on the GPU, by all processes, and advice about it.
import { h, name, swatch } from "../dom.js";
import { categoryLabel, deviceOf } from "./view.js";
import { documentPart, emptyState, showButton, card, codePlace, factList } from "./findings.js";
import { column, smallTable } from "./table.js";

const KINDS = {
    other: () => "other processes, or not recorded",
    free: ({ unsure }) => `free${unsure ? ", or other processes" : ""}`,
    library: (row) => `${row.name}, for itself`,
    cached: () => "cached",
    modules: (row) => `kernels and modules${row.name ? ` of ${row.name}` : ""}`,
    graphs: () => "CUDA graphs",
    graph_memory: () => "memory of CUDA graphs",
    streams: () => "streams",
    settings: () => "limits and other settings",
    context: (row) => (row.name ? `another CUDA context, of ${row.name}` : "CUDA context"),
    context_and_processes: () => "CUDA context and other processes",
    process: (row) => `process ${row.pid}${row.command ? `: ${row.command.replace(/^\S*\//, "")}` : ""}`,
    unlisted: () => "of no process that NVML lists",
    unexplained: () => "unexplained",
    foreign: () => "shared by other processes",
    host: () => "pinned host memory",
    reserved: () => "reserved by the driver for itself"
};
const REASONS = {
    no_nvml: "NVML was not available",
    not_listed: "NVML did not list processes (no permission?)",
    without_this: "it is not clear which NVML process is this one (a container?)",
    without_bytes: "NVML does not report memory per process here (WSL, vGPU)",
    do_not_fit: "NVML's figures do not match this process"
};

function title(model, row) {
    if (row.kind === "category")
        return row.name ? categoryLabel(model, row.name) : "uncategorised";
    return KINDS[row.kind] ? KINDS[row.kind](row) : row.kind;
}

/** What is on a GPU: rows {kind, name, bytes}; `share`: the title of the shares of `whole`. */
export function tableOf(context, caption, rows, whole, share = "of GPU in use", sort = null) {
    const { model, format } = context;
    return smallTable({
        context,
        caption,
        sort,
        columns: [
            column("what", "What", "text", (row) => title(model, row), {
                cell: (row) => h("span", {}, row.kind === "category" && row.name ? swatch(row.name) : null,
                    name(title(model, row), "vp-wrap"))
            }),
            column("bytes", "Bytes", "bytes", (row) => row.bytes, {
                cell: (row) => h("span", {}, row.bytes === null ? "unknown" : format.bytes(row.bytes))
            }),
            whole ? column("share", share, "share", (row) => (row.bytes >= 0 ? row.bytes / whole : null)) : null
        ].filter(Boolean)
    }, rows);
}

function sentences(table, format) {
    const apart = table.measured_t_ns - table.t_ns, own = table.moved_bytes;
    const text = [`${table.source === "nvml" ? "NVML" : "The driver"} reported the bytes in use ${
        format.duration(Math.abs(apart))} ${apart < 0 ? "before" : "after"} that moment${
        own ? `; this process then had ${format.bytes(Math.abs(own))} ${own < 0 ? "more" : "less"}` : ""}${
        table.steady ? "" : "; its memory changed meanwhile"}.`];
    if (REASONS[table.processes])
        text.push(`Other processes and this one's context cannot be separated: ${REASONS[table.processes]}.`);
    else if (table.nested)
        text.push("NVML may not list processes outside of this container.");
    return text.join(" ");
}

function adviceCard(advice, format) {
    const sign = ["unexplained", "unlisted"].includes(advice.kind) ? "" : "−";
    return card({
        heading: name(advice.what, "vp-wrap"),
        figure: `${sign}${format.bytes(advice.bytes)} · ${format.percent(advice.share, 1)}`
    },
        factList([["Why", name(advice.why, "vp-wrap")]]));
}

function moment(root, context, heading, table) {
    const { format } = context;
    root.append(
        card({
            heading,
            figure: `${format.bytes(table.device_bytes)} of ${format.bytes(table.total_bytes)} in use`,
            button: showButton(context, { event: table.event })
        },
            tableOf(context, `In use on the GPU, ${heading.toLowerCase()}`, table.rows, table.device_bytes),
            table.not_counted?.length ? tableOf(context, `Not counted, ${heading.toLowerCase()}`, table.not_counted, 0) : null,
            h("p", { class: "vp-muted" }, sentences(table, format))),
        ...(table.advice || []).map((advice) => adviceCard(advice, format)));
}

/** A GPU on which the process has only a context. */
function bareContext(bare, format) {
    const { line } = bare, ended = bare.end_t_ns === null ? "" : `, ended at ${format.duration(bare.end_t_ns)}`;
    return card({
        heading: `GPU ${bare.device}: only a CUDA context`,
        figure: bare.bytes === null ? "size unknown" : format.bytes(bare.bytes)
    },
        factList([
            ["Created", `at ${format.duration(bare.t_ns)}${ended}`],
            ["By", line ? codePlace(line.file, line.line, line.function) || line.function : null],
            ["Remedy", "CUDA was called for this GPU without need: choose the device before the first CUDA call, or hide other GPUs (CUDA_VISIBLE_DEVICES)."]
        ]));
}

function draw(root, document, context) {
    const device = deviceOf(document, context.model), { gpu = [], graph_pools: pools = [] } = context.model.device;
    root.append(...[...gpu, ...pools].map((text) => h("p", {}, name(text, "vp-wrap"))));
    if (device?.gpu)
        moment(root, context, "At the peak", device.gpu);
    if (device?.last_gpu)
        moment(root, context, "At the last reading", device.last_gpu);
    if (!device?.gpu && !device?.last_gpu)
        root.append(emptyState("Whole-GPU usage was not measured."));
    root.append(...(document?.contexts_without_memory || []).map((bare) => bareContext(bare, context.format)));
}

export const create = documentPart((model) => model.document("report"), "This page does not include the report.", draw);
