// The tabs, in their order.
import { create as who } from "./parts/who.js";
import { create as flame } from "./parts/flame.js";
import { create as blocks } from "./parts/blocks.js";
import { create as map } from "./parts/map.js";
import { create as leaks } from "./parts/leaks.js";
import { create as oom } from "./parts/oom.js";
import { create as frag } from "./parts/frag.js";
import { create as advice } from "./parts/advice.js";
import { create as card } from "./parts/card.js";
import { create as steps } from "./parts/steps.js";
import { create as source } from "./parts/source.js";
import { create as ranks } from "./parts/ranks.js";
import { create as diff } from "./parts/diff.js";

/** `strip`: it says all by itself, so the timeline is a strip above it; `full`: it can have the whole window; `wanted`: whether a page
 * has it. */
export const parts = [
    { id: "who", title: "Who", create: who },
    { id: "flame", title: "Flame graph", create: flame },
    { id: "blocks", title: "Blocks", create: blocks, full: true },
    { id: "map", title: "Map", create: map, full: true },
    { id: "leaks", title: "Leaks", create: leaks },
    { id: "oom", title: "OOM", create: oom, strip: true },
    { id: "frag", title: "Frag", create: frag },
    { id: "advice", title: "Advice", create: advice, strip: true },
    { id: "card", title: "GPU", create: card, strip: true },
    { id: "steps", title: "Steps", create: steps, strip: true },
    { id: "source", title: "Source", create: source, strip: true },
    { id: "ranks", title: "Ranks", create: ranks, wanted: ({ traces }) => traces.length > 1 || traces[0].devices.length > 1 },
    { id: "diff", title: "Diff", create: diff, wanted: (head) => Boolean(head.diff) },
];
