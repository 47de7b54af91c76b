// Making elements. Text from a trace is hostile: it goes in as text only, isolated from the direction of the
// text around it, with what cannot be seen made visible.

const HIDDEN =
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Control and direction characters as "‹U+202E›"; halves of characters as "\ufffd". */
export function visible(text) {
    return String(text ?? "").replace(HIDDEN, (letter) => {
        const code = letter.charCodeAt(0);
        return code >= 0xd800 && code <= 0xdfff ? "\ufffd" : `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
    });
}

/** @returns {any} what index.html has by this name */
export const byId = (id) => document.getElementById(id);

/** @returns {NodeListOf<any>} */
export const allOf = (selector) => document.querySelectorAll(selector);

/** An element; attributes that begin with "on" are listeners, null and false ones are left out. Children are
 * nodes or text. */
export function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (value === null || value === undefined || value === false)
            continue;
        if (name === "style")
            element.style.cssText = value; // an attribute would be against the page's policy
        else if (name.startsWith("on"))
            element.addEventListener(name.slice(2), value);
        else if (name === "value" || name === "checked" || name === "disabled" || name === "selected")
            element[name] = value;
        else
            element.setAttribute(name, value === true ? "" : String(value));
    }
    append(element, children);
    return element;
}

function append(element, children) {
    for (const child of children) {
        if (Array.isArray(child))
            append(element, child);
        else if (child instanceof Node)
            element.append(child);
        else if (child !== null && child !== undefined && child !== false)
            element.append(String(child));
    }
}

/** A name from the trace: one line cut by CSS, its full text on hover and for screen readers. */
export function name(text, className = "") {
    const shown = visible(text);
    return h("bdi", { class: `vp-name ${className}`.trim(), title: shown }, shown);
}

/** Puts children in the place of all that an element has. */
export function clear(element, ...children) {
    element.replaceChildren();
    append(element, children);
    return element;
}

/** A group of buttons of which one is pressed. `choices`: [[value, label]…]. */
export function toggle(label, choices, value, choose) {
    const buttons = choices.map(([choice, text]) => h("button", {
        type: "button",
        "aria-pressed": String(choice === value),
        onclick: () => {
            press(choice);
            choose(choice);
        }
    },
                                    text));
    const press = (chosen) =>
        buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(choices[i][0] === chosen)));
    return h("div", { class: "vp-toggle", role: "group", "aria-label": label }, buttons);
}

/** A labelled choice. `choices`: [[value, label]…]. */
export function select(label, choices, value, choose) {
    const list = h("select", { onchange: () => choose(list.value) },
        choices.map(([choice, text]) => h("option", { value: choice, selected: choice === value }, text)));
    return h("label", { class: "vp-field" }, h("span", {}, label), list);
}

/** The way from the root of a tree to a node, as buttons. -> { element, show(nodes) } */
export function createCrumbs(label, titleOf, go) {
    const element = h("nav", { class: "vp-crumbs", "aria-label": label });
    const show = (nodes) => clear(element, nodes.map((node) => h("button",
        { type: "button", "aria-current": node === nodes.at(-1) ? "true" : null, onclick: () => go(node) }, name(titleOf(node)))));
    return { element, show };
}

/** A square in the colour of a category; always beside its name. */
export function swatch(category) {
    return h("span",
        { class: "vp-swatch", "aria-hidden": "true", "data-category": category, style: `--c:${colourOf(category)}` });
}

/** The CSS colour of a category, or the ink that is read on it. Category names come from the trace's head: only
 * plain ones make a variable. */
export function colourOf(category, what = "c") {
    const plain = /^[a-z_]+$/.test(category), other = what === "c" ? "var(--muted)" : "var(--bg)";
    return plain ? `var(--${what}-${category.replace(/_/g, "-")}, ${other})` : other;
}

/** Listens for keys: `does(event)` has what each of them does, by its name. The page's own keys are the others. */
export function onKeys(element, does) {
    element.addEventListener("keydown", (event) => {
        const action = event.ctrlKey || event.altKey || event.metaKey ? null : does(event)[event.key];
        if (!action)
            return;
        event.preventDefault();
        event.stopPropagation();
        action();
    });
}

/** Arrow keys, Home and End move the focus among the buttons that `find` lists; one of them is reachable by Tab. */
export function roving(element, find) {
    onKeys(element, () => {
        const items = find(), at = items.indexOf(document.activeElement);
        const to = (next) => () => {
            items[at].tabIndex = -1;
            items[next].tabIndex = 0;
            items[next].focus();
        };
        const before = at > 0 ? to(at - 1) : null, after = at >= 0 && at + 1 < items.length ? to(at + 1) : null;
        const ends = at < 0 ? {} : { Home: to(0), End: to(items.length - 1) };
        return { ArrowUp: before, ArrowLeft: before, ArrowDown: after, ArrowRight: after, ...ends };
    });
}

/** Makes an element a slider of whole numbers, moved by arrows, Home and End: `say(at)` returns what is said of a place, and Enter opens it.
 * -> what moves it */
export function slider(element, first, last, say, open) {
    let at = first;
    const move = (to) => {
        at = Math.max(first, Math.min(last, to));
        element.setAttribute("aria-valuenow", String(at));
        element.setAttribute("aria-valuetext", say(at));
    };
    const up = element.getAttribute("aria-orientation") === "vertical" ? -1 : 1; // of rows, the first is on top
    onKeys(element, () => ({
        ArrowLeft: () => move(at - 1), ArrowRight: () => move(at + 1), ArrowDown: () => move(at - up), ArrowUp: () => move(at + up),
        Home: () => move(first), End: () => move(last), Enter: () => open(at)
    }));
    return move;
}
