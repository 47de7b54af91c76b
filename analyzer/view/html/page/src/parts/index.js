// The tabs, in their order.
import { part as who } from "./who.js";
import { part as flame } from "./flame.js";
import { part as blocks } from "./blocks.js";
import { part as map } from "./map.js";
import { part as leaks } from "./leaks.js";
import { part as oom } from "./oom.js";
import { part as frag } from "./frag.js";
import { part as advice } from "./advice.js";
import { part as card } from "./card.js";
import { part as steps } from "./steps.js";
import { part as source } from "./source.js";
import { part as ranks } from "./ranks.js";
import { part as diff } from "./diff.js";

export const parts = [who, flame, blocks, map, leaks, oom, frag, advice, card, steps, source, ranks, diff];
