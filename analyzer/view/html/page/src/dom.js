// Elements. Text goes in as text nodes only: what comes from a trace can never become markup.

export function el(tag, properties, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
        if (value === undefined || value === null || value === false)
            continue;
        if (name.startsWith("on"))
            node.addEventListener(name.slice(2), value);
        else if (name === "class")
            node.className = value;
        else
            node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return node;
}

// Marks that would turn around what stands beside a name, and what has no shape of its own.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

// A text of the trace as it may be shown: what is invisible becomes its code.
export function visible(text) {
    return String(text).replace(HIDDEN, (sign) =>
        sign === "\n" ? "⏎" : sign === "\t" ? "⇥" : `‹${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

// A name of the trace, kept apart from the direction of the text around it.
export function name(text, properties) {
    return el("bdi", properties, visible(text));
}

export function clear(node, ...children) {
    node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
}
