// Out of memory: the request, what filled the GPU, why the cache did not help, what would have been freed next.
import { h, name, visible } from "../dom.js";
import { tableOf } from "./card.js";
import { documentPart, emptyState, showButton, card, factList, codePlace, plural } from "./findings.js";
import { categoryColumn, column, smallTable } from "./table.js";
import { foldedStack, sourceLines } from "./details.js";

function freeText(refusal, format) {
    if (refusal.free_bytes === undefined || refusal.free_bytes === null)
        return null;
    return `${refusal.free_reported === false ? "at most " : ""}${format.bytes(refusal.free_bytes)}`;
}

function refusalCard(context, refusal, number, causes) {
    const { format } = context, asked = refusal.requested_by || {};
    return card({
        heading: `Out of memory ${number}`,
        figure: `${format.bytes(refusal.requested_bytes)} requested`,
        tone: "alarm",
        button: showButton(context, { event: refusal.event })
    },
        causes,
        factList([
            [
                "When",
                `at ${format.duration(refusal.t_ns)}${refusal.step ? `, step ${format.count(refusal.step)}` : ""}, ${
                    refusal.phase}`
            ],
            ["Requested by", asked.name ? name(asked.name) : null],
            ["Operator", asked.operator ? name(`${asked.operator}${asked.module ? ` in ${asked.module}` : ""}`) : null],
            ["Free on the GPU", freeText(refusal, format)],
            ["Segment needed", refusal.tried_bytes > refusal.requested_bytes ? format.bytes(refusal.tried_bytes) : null],
            [
                "Failed in",
                refusal.driver_tries
                    ? `the driver, ${format.count(refusal.driver_tries)} ${plural(refusal.driver_tries, "time")}`
                    : refusal.layer === "framework"
                    ? "the framework, which has a limit of its own (the driver was not called)"
                    : refusal.layer
            ],
            ["Then", refusal.ends_run ? "nothing more was allocated" : "the process continued"]
        ]),
        asked.file ? sourceLines(context.names, asked.file, asked.line) : null,
        foldedStack(refusal.stack));
}

/* Why memory ran out, the likeliest first, and what helps. */
function causeCards(context, { causes = [] }) {
    const { format } = context;
    return causes.map((cause, i) => card({
        heading: `${i ? "Also" : cause.certain ? "Why" : "Observed"}: ${visible(cause.what)}`,
        figure: `${format.bytes(cause.bytes)} · ${format.percent(cause.share, 1)} of the GPU`
    },
        factList([
            ["Remedy", h("strong", {}, name(cause.remedy, "vp-wrap"))],
            ["Held by", cause.holder ? name(cause.holder, "vp-wrap") : null],
            ["Allocated at", cause.line ? codePlace(cause.line.file, cause.line.line, cause.line.function) ?? name(cause.line.function) : null],
            ["Without these bytes", cause.suffices ? "the request would have succeeded" : null],
            ["Examined", name(cause.examined, "vp-wrap")]
        ])));
}

function whatFilled(context, gpu) {
    const rows = [
        ...Object.entries(gpu.categories).map(([name, bytes]) => ({ kind: "category", name, bytes })),
        { kind: "other", bytes: gpu.other_bytes }, { kind: "free", bytes: gpu.free_bytes, unsure: gpu.free_reported === false }
    ].filter(({ bytes }) => bytes > 0);
    return tableOf(context, "What filled the GPU", rows, gpu.total_bytes, "of GPU", ["bytes", true]);
}

function cacheText(context, last, refusal) {
    const { format } = context, { cache } = last;
    if (!cache || !cache.bytes)
        return "The framework's cache was empty: nothing could be reused.";
    const parts = [`The cache held ${format.bytes(cache.bytes)}; the largest free piece was ${
        format.bytes(cache.largest_hole_bytes)}.`];
    if (refusal && cache.bytes >= refusal.requested_bytes && cache.largest_hole_bytes < refusal.requested_bytes)
        parts.push("Enough was free, but not in one piece: fragmentation.");
    if (cache.empty_bytes)
        parts.push(`${format.bytes(cache.empty_bytes)} of it were in empty segments${cache.release ? `; ${cache.release} would return ${
            cache.returnable_bytes === cache.empty_bytes ? "them" : format.bytes(cache.returnable_bytes)}` : ""}.`);
    return parts.join(" ");
}

function freedNext(context, last) {
    if (!last.freed_next?.length)
        return null;
    return smallTable({
        context,
        caption: last.freed_next_happened ? "Freed next"
                                          : "Would have been freed next (estimated)",
        sort: ["after", false],
        columns: [
            column("line", "Line", "text", (row) => `${row.file}:${row.line}`,
                { cell: (row) => codePlace(row.file, row.line) || h("span", { class: "vp-muted" }, "no line known") }),
            column("bytes", "Bytes", "bytes", (row) => row.bytes, { sum: true }),
            column("blocks", "Blocks", "count", (row) => row.blocks, { sum: true }),
            categoryColumn(context, "Category", (row) => row.category),
            column("owner", "Owner or module", "text", (row) => row.owner || row.module),
            column("after", "After events", "count", (row) => row.after_events),
            column("phase", "In", "text", (row) => row.phase)
        ]
    }, last.freed_next);
}

const CARDS = 100;

function draw(root, document, context) {
    const { format } = context, refusals = document.out_of_memory || [], survived = document.survived || { times: 0 };
    if (!refusals.length)
        root.append(emptyState(
            document.unseen_limit
                ? `No request to the driver failed. Errors from the framework's own limit are not recorded (${
                      document.unseen_limit}).`
                : "No out-of-memory errors."));
    if (survived.times)
        root.append(h("p", { class: "vp-warning" },
            `${format.count(survived.times)} ${plural(survived.times, "request")} to the driver (up to ${
                format.bytes(survived.largest_bytes)}) failed at first; ${
                survived.emptied_cache ? "the framework emptied its cache and retried, which takes time"
                                       : "the framework found another way"}.`));
    const last = document.last, count = document.out_of_memory_count, drawn = refusals.slice(-CARDS);
    if (count > drawn.length)
        root.append(h("p", { class: "vp-muted" },
            `The last ${drawn.length} of ${format.count(count)}; vramtrace export --format csv --table out_of_memory lists all.`));
    drawn.forEach((refusal) => {
        const element = refusalCard(context, refusal, count > 1 ? `${refusal.number} of ${format.count(count)}` : "", refusal.number === last?.number ? causeCards(context, last) : []);
        if (last && refusal.number === last.number) {
            if (last.missing_bytes)
                element.append(h("p", {}, h("strong", {}, `${format.bytes(last.missing_bytes)} too little.`)));
            element.append(h("p", {}, cacheText(context, last, refusal)));
            if (last.gpu)
                element.append(whatFilled(context, last.gpu));
            const next = freedNext(context, last);
            if (next)
                element.append(next);
        }
        root.append(element);
    });
}

export const create = documentPart((model) => model.document("oom"), "No out-of-memory errors.", draw);
