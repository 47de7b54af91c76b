// What each word and mark of the page means: one table of texts, shown on hover and on keyboard focus.

import { h } from "./dom.js";

const TERMS = {
    // Categories
    parameter: "Weights of the model that training changes.",
    buffer: "Tensors of modules that are not trained, such as running means.",
    "checkpoint copy": "A copy of weights or optimizer state that is made to be saved or restored.",
    optimizer: "What the optimizer keeps for each parameter, such as Adam's two moments.",
    gradient: "Gradients of parameters, from backward until they are set to None.",
    activation: "Results of the forward pass that backward still needs.",
    "kv cache": "Keys and values of attention, kept from token to token.",
    input: "Data that came from the host, such as a batch.",
    temporary: "Short-lived memory within an operator, or between two of them.",
    workspace: "Scratch memory of libraries such as cuBLAS and cuDNN.",
    communication: "Buffers of NCCL and of collective operations.",
    other: "Named tensors that are none of the above.",
    unknown: "Nothing shows what this memory is for.",
    cached: "Reserved but unused: the framework took it from the driver, and no tensor is in it now.",
    context: "What CUDA takes for itself in this process: its context, kernels and libraries.",
    "pinned host": "Page-locked memory of the host. It is on no GPU and in no sum.",
    // Sums
    "in use": "All categories together, without cached memory and the CUDA context.",
    "from driver": "All that the process has from the driver: in use, cached and context.",
    "gpu size": "All memory of the GPU. The dashed line in the picture.",
    reserved: "What the framework took from the driver in segments, in use or not.",
    // Evidence
    evidence: "How sure the category is: exact, strong or weak.",
    exact: "Read from the live Python object.",
    strong: "Two independent signals agree.",
    weak: "One signal, or none: up to a quarter of these bytes may be in a wrong category.",
    // Phases
    init: "Before the first step.",
    forward: "The model computes its output.",
    backward: "Gradients are computed.",
    "phase optimizer": "The optimizer updates the parameters.",
    eval: "The model runs without gradients.",
    data: "Between steps: the next batch is loaded.",
    "phase other": "In none of these phases.",
    // Marks of the timeline
    step: "One iteration of training; without training, one call of the model. ▲: its peak stands out, ◷: its duration.",
    peak: "◆ The moment with most in use.",
    "out of memory": "✖ A request failed for lack of memory.",
    request: "One call of the function that answers requests, such as generate(): from its first event to its last.",
    mark: "▾ A mark that the program set.",
    driver: "Memory from the driver. In the picture it is the grey line.",
    gap: "Hatched: events that this page does not have one by one. Sums around them are exact, states within are not known.",
    // Words of the tabs
    "held by": "The Python name that keeps the memory alive, as an inspection saw it.",
    rule: "The rule that gave the category (report --explain shows it).",
    owner: "The named tensor that the memory belongs to.",
    module: "The module in whose call it was allocated, or that holds it.",
    segment: "Memory from the driver that the framework cuts its blocks from. It returns only as a whole.",
    "largest hole": "The largest free piece: a larger request needs new memory from the driver.",
    "in empty segments": "Free memory that can be returned, since no block is in its segment.",
    "between blocks": "Free memory that cannot be returned: blocks in use share its segments.",
    "pins free": "Free memory in the segments that these blocks keep from being returned.",
    blocks: "Allocations of the framework. One with several tensors counts for each owner.",
    "pinned by": "Its longest-lived block: the segment cannot be returned before that is freed.",
    grew: "In use at the end of the step, minus the end of the step before.",
    outlier: "It needs much more or less than the other processes with the same work.",
    "above lowest": "How much more it needs than the one with the lowest peak.",
    "driver peak, without context": "The most that it had from the driver at any time, cached memory included.",
    "leak per step": "Memory that each step keeps and never frees.",
    "savings": "Each is estimated alone. Two may save the same bytes, so they do not add up.",
    // Tabs
    "tab who": "Who holds the memory at this moment.", "tab blocks": "Each block from its allocation to its free.",
    "tab map": "Where blocks and holes are in memory.", "tab leaks": "What each step keeps.",
    "tab oom": "Why memory ran out, and what helps.", "tab frag": "Free memory that cannot be used or returned.",
    "tab advice": "What would lower the peak.", "tab card": "Every byte in use on the GPU, by all processes.",
    "tab steps": "Each step's peak and duration.", "tab source": "Your code, with the memory of each line.",
    "tab ranks": "All processes of the job beside each other.", "tab diff": "What differs between two traces.",
};

// Two phases have the name of a category.
export const phaseTerm = (phase) => (TERMS[`phase ${phase}`] ? `phase ${phase}` : phase);

const keyOf = (text) => String(text).toLowerCase();

/** Attributes of an element that shows this word; `focusable`: it cannot be focused otherwise. */
export function explained(text, focusable = false) {
    return TERMS[keyOf(text)] ? { "data-term": keyOf(text), tabindex: focusable ? "0" : null } : {};
}

export const glossary = () => Object.entries(TERMS).filter(([term]) => !/^(tab|phase) /.test(term));

const tip = typeof document === "undefined" ? null : h("div", { id: "tip", role: "tooltip", hidden: true });
let told = null;

export function hush() {
    told?.removeAttribute("aria-describedby");
    told = null;
    tip.hidden = true;
}

/** Explains a word, or says `text`, of `element` beside a place of the window, after `figures`; hush() ends it. */
export function tell(element, term, { x, y, text = TERMS[term], figures = "" }) {
    hush();
    if (!text)
        return;
    told = element;
    tip.textContent = figures + text;
    tip.hidden = false;
    element.setAttribute("aria-describedby", "tip");
    (element.closest("dialog") ?? document.body).append(tip); // a dialog hides all that is outside
    tip.style.left = `${Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 6))}px`;
    tip.style.top = `${y + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 26 : y}px`;
}

/** Listens for all that `explained` marks. */
export function explain() {
    const at = (event) => event.target.closest?.("[data-term]");
    const show = (element) => {
        const box = element.getBoundingClientRect();
        tell(element, element.dataset.term, { x: box.left, y: box.bottom + 4 });
    };
    const begin = (event) => {
        const element = at(event);
        if (element && (event.type !== "focusin" || element.matches(":focus-visible")))
            show(element);
    };
    const end = (event) => told && (event.target === told || at(event) === told) && hush();
    document.addEventListener("pointerover", begin);
    document.addEventListener("focusin", begin);
    document.addEventListener("pointerout", end);
    document.addEventListener("focusout", end);
    document.addEventListener("keydown", (event) => event.key === "Escape" && hush());
    document.addEventListener("scroll", () => told?.dataset.term && show(told), true); // the focus scrolls, too
}
