// The parts below the timeline, one at a time.

import { clear, h as el, onKeys } from "./dom.js";
import { badgeOf } from "./badges.js";
import { explained } from "./terms.js";

const SLOW_MS = 16;
const REST_MS = 150;

export class Tabs {
    constructor(list, panels, parts, store) {
        this.store = store;
        this.panels = panels;
        this.parts = parts;
        this.open = null;
        this.buttons = parts.map((part, i) => {
            const button = el("button", { type: "button", role: "tab", id: `tab-${part.id}`, "aria-controls": `panel-${part.id}`, ...explained(`tab ${part.id}`), tabindex: "-1", "aria-keyshortcuts": i < 9 ? String(i + 1) : null }, part.title);
            button.addEventListener("click", () => store.set({ tab: part.id }));
            return button;
        });
        list.append(...this.buttons);
        onKeys(list, ({ target }) => {
            const at = this.buttons.indexOf(target);
            const to = (next) => () => this.go((next + parts.length) % parts.length);
            return { ArrowRight: to(at + 1), ArrowLeft: to(at - 1), Home: to(0), End: to(-1) };
        });
    }

    go(number) {
        this.buttons[number]?.focus();
        this.buttons[number]?.click();
    }

    // A new model: all that was made is made again when it is seen.
    renew(context) {
        this.close();
        this.context = context;
        for (const [i, part] of this.parts.entries()) {
            const count = badgeOf(part.id, context.model.trace, context.model.device);
            clear(this.buttons[i], part.title, count ? el("span", { class: "badge" }, String(count)) : "");
        }
        this.update(this.store.get());
    }

    close() {
        this.open?.view.destroy?.();
        this.open = null;
        clear(this.panels);
    }

    update(state) {
        const part = this.parts.find(({ id }) => id === state.tab) ?? this.parts[0];
        for (const [i, { id }] of this.parts.entries()) {
            this.buttons[i].setAttribute("aria-selected", String(id === part.id));
            this.buttons[i].tabIndex = id === part.id ? 0 : -1;
        }
        if (!this.context || !part)
            return;
        if (this.open?.part !== part) {
            this.close();
            const root = el("section", { role: "tabpanel", id: `panel-${part.id}`, "aria-labelledby": `tab-${part.id}`, tabindex: "0", class: `part part-${part.id}` });
            clear(this.panels, root);
            this.open = { part, root, view: this.make(part, root) };
            const { parentElement: list, offsetLeft, offsetWidth } = this.buttons[this.parts.indexOf(part)];
            list.scrollLeft = Math.max(offsetLeft + offsetWidth - list.clientWidth, Math.min(list.scrollLeft, offsetLeft));
            this.cost = 0;
        }
        this.refresh(state);
    }

    // A part that takes longer than a frame has time for waits until the pointer rests: the timeline never does.
    refresh(state) {
        clearTimeout(this.later);
        if (this.cost > SLOW_MS) {
            this.later = setTimeout(() => {
                this.cost = 0;
                this.refresh(this.store.get());
            }, REST_MS);
            return;
        }
        const began = performance.now();
        this.attempt(() => this.open.view.update?.(state));
        this.cost = performance.now() - began;
        // Some draw in the frame that follows.
        requestAnimationFrame(() => {
            const frame = performance.now();
            setTimeout(() => {
                this.cost = Math.max(this.cost, performance.now() - frame);
            });
        });
    }

    // A part that fails says so in its own place; the others go on.
    make(part, root) {
        return this.attempt(() => part.create(root, this.context), root) ?? {};
    }

    attempt(action, root = this.open?.root) {
        try {
            return action();
        } catch (error) {
            console.error(error);
            clear(root, el("p", { class: "trouble" }, `This part could not be shown: ${error.message}`));
            return null;
        }
    }
}
