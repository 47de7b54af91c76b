// Who holds the memory at an instant: a tree by category, module, owner and line, and a table beside it.
import { h, name, clear, toggle, select, swatch, visible } from "./dom.js";
import { instantOf, secondOf, peakOf, momentText, categoryLabel, bytesOf } from "./view.js";
import { WAYS, aliveByClass, groupBy, blockRows, compare, mostly, treeOf, follow, within } from "./groups.js";
import { createTable } from "./table.js";
import { createTreemap } from "./treemap.js";
import { createDetails } from "./details.js";

const UNNAMED = { category: "no category", module: "no module", kind: "no module", owner: "no owner known", line: "no line known", stack: "no stack recorded", op: "no operator" };

export function titleOf(context, node) {
  if (!node.level) return "all in use";
  return node.level === "category" ? categoryLabel(context.model, node.name) : node.name || UNNAMED[node.level];
}

function create(root, context) {
  const { store, model, format } = context;
  let by = "owner", way = "treemap", path = [], at = null, second = null, entriesA = [], entriesB = null, tree = null;

  const heading = h("p", { class: "vp-heading" }), crumbs = h("nav", { class: "vp-crumbs", "aria-label": "Narrowed to" });
  const hint = h("p", { class: "vp-hover", "aria-hidden": "true" });
  const details = createDetails(context, "Choose a row or a tile to see its stack and source line.");
  const map = createTreemap({ format, title: (node) => titleOf(context, node), choose, hover, widen: () => go(path.slice(0, -1)) });
  const table = createTable({ context, caption: "In use", columns: columns(), sort: ["bytes", true], key: (row) => row.key,
    choose: pickRow, empty: "Nothing is in use at this instant." });
  const aside = h("p", { class: "vp-muted vp-aside" });

  table.element.querySelector(".vp-tools").prepend(select("by", WAYS, by, (value) => { by = value; refreshTable(true); }));
  root.append(h("div", { class: "vp-who" },
    h("div", { class: "vp-left" }, h("div", { class: "vp-bar" }, crumbs,
      toggle("Picture", [["treemap", "Treemap"], ["icicle", "Icicle"]], way, (value) => { way = value; drawTree(); })), map.element, hint),
    h("div", { class: "vp-right" }, heading, table.element, aside, details.element)));

  function columns() {
    const compared = second !== null, whole = wholeBytes();
    const list = [{ id: "name", title: WAYS.find(([id]) => id === by)[1].replace(/^./, (letter) => letter.toUpperCase()), kind: "name", value: (row) => (by === "category" ? categoryLabel(context.model, row.name) : row.name || UNNAMED[by] || ""),
      cell: by === "category" ? (row) => h("span", {}, swatch(row.name), categoryLabel(context.model, row.name)) : undefined }];
    if (by === "owner") list.push({ id: "role", title: "What", kind: "text", value: (row) => [row.part?.role, row.part?.dtype, row.part?.shape].filter(Boolean).join(" ") });
    list.push({ id: "bytes", title: compared ? "A" : "Bytes", kind: "bytes", sum: true, value: (row) => (compared ? row.a : row.bytes) });
    if (compared)
      list.push({ id: "b", title: "B", kind: "bytes", sum: true, value: (row) => row.b }, { id: "change", title: "B − A", kind: "change", sum: true, value: (row) => row.change });
    else
      list.push({ id: "share", title: at === peakOf(model) ? "of peak" : "of instant", kind: "share", sum: true, value: (row) => (whole ? row.bytes / whole : null) });
    if (by !== "block") list.push({ id: "blocks", title: "Blocks", kind: "count", value: (row) => (compared && !row.blocks ? row.blocksB : row.blocks),
      about: "A block of several tensors counts in each of its owners" });
    if (by !== "category") list.push({ id: "category", title: by === "block" || by === "owner" ? "Category" : "Mostly", kind: "text", value: (row) => categoryLabel(context.model, mostly(row.categories)),
      cell: (row) => h("span", { class: "vp-nowrap" }, swatch(mostly(row.categories)), categoryLabel(context.model, mostly(row.categories))) });
    if (by === "line" || by === "block") list.push({ id: "phase", title: "Made in", kind: "text", value: (row) => row.entry.klass.phase });
    if (by === "block") list.push({ id: "step", title: "Step", kind: "count", value: (row) => model.stepOf(model.begin[row.entry.allocation]) },
      { id: "line", title: "Line", kind: "text", value: (row) => row.entry.klass.place?.name });
    return list;
  }

  function wholeBytes() {
    return entriesA.reduce((sum, entry) => sum + entry.bytes, 0);
  }

  function rowsAt(change, entries) {
    if (by !== "block") return groupBy(within(entries, path), by);
    const keep = new Map(within(entries, path).map((entry) => [entry.index, entry]));
    return blockRows(model, change).filter((row) => keep.has(row.entry.index));
  }

  function refreshTable(newWay) {
    const rows = second === null ? rowsAt(at, entriesA) : compare(rowsAt(at, entriesA), rowsAt(second, entriesB));
    const compared = second !== null;
    table.columns(columns(), newWay ? (compared ? [null, false] : ["bytes", true]) : null);
    table.set(rows, `In use by ${WAYS.find(([id]) => id === by)[1]}, ${momentText(context, at)}`);
  }

  function drawTree() {
    const compared = second !== null, node = follow(tree, path);
    const sizeOf = compared ? (one) => Math.max(one.bytes, one.b) : (one) => one.bytes;
    map.draw(node, way, { sizeOf: compared ? largerOf(sizeOf) : sizeOf, whole: tree.bytes, compare: compared });
  }

  /* A node's area where two instants are compared: the larger of both in each leaf, so that areas sum up. */
  function largerOf(leafSize) {
    const sizes = new Map();
    const size = (node) => {
      if (!sizes.has(node)) {
        let sum = 0;
        for (const child of node.children.values()) sum += size(child);
        sizes.set(node, node.children.size ? sum : leafSize(node));
      }
      return sizes.get(node);
    };
    return size;
  }

  function drawCrumbs() {
    const nodes = [tree];
    for (const step of path) nodes.push(nodes[nodes.length - 1].children.get(step));
    clear(crumbs).append(...nodes.filter(Boolean).map((node, i) =>
      h("button", { type: "button", "aria-current": i === path.length ? "true" : null, onclick: () => go(path.slice(0, i)) }, name(titleOf(context, node)))));
  }

  function pathOf(node) {
    const names = [];
    for (let one = node; one && one.parent; one = one.parent) names.unshift(one.name);
    return names;
  }

  function choose(node) {
    if (node.entry) choice(node.entry, null, node.level, node.name);
    if (node.children.size) go(pathOf(node));
    else table.select(null);
  }

  function go(next) {
    path = next;
    drawCrumbs();
    drawTree();
    refreshTable(false);
    const node = follow(tree, path);
    context.announce(`${visible(titleOf(context, node))}: ${format.bytes(node.bytes)}, ${format.percent(node.bytes, tree.bytes)}`);
  }

  function pickRow(row) {
    table.select(row.key);
    choice(row.entry, by === "block" ? row.entry.allocation : null, by === "kind" ? "class" : by, row.name);
  }

  function choice(entry, allocation, kind, key) {
    details.show(entry, allocation);
    store.set({ selection: allocation === null ? { kind, key } : { kind: "block", key: String(allocation) } });
  }

  function hover(node) {
    if (!node) return void (hint.textContent = "");
    const change = second === null ? "" : ` · ${format.change(node.b - node.bytes)} to B`;
    clear(hint).append(name(`${titleOf(context, node)}`), ` ${format.bytes(node.bytes)} (${format.exact(node.bytes)}) · ${format.percent(node.bytes, tree.bytes)} · ${format.count(node.blocks)} block${node.blocks === 1 ? "" : "s"}${change}`,
      node.entry && node.entry.klass.place?.name ? h("span", { class: "vp-muted" }, " · ", name(node.entry.klass.place.name)) : "");
    return undefined;
  }

  function drawHeading() {
    const state = model.state(at), used = wholeBytes();
    clear(heading).append(h("strong", {}, format.bytes(used)), ` in use ${momentText(context, at)}`);
    if (second !== null) {
      const other = entriesB.reduce((sum, entry) => sum + entry.bytes, 0);
      heading.append(`; B: ${format.bytes(other)} ${momentText(context, second)}, `, h("strong", {}, format.change(other - used)));
    }
    const unused = ["cached", "context"].map((category) => [category, bytesOf(model, state, category)]).filter(([, bytes]) => bytes);
    aside.textContent = unused.length ? `Not in the table: ${unused.map(([category, bytes]) => `${format.bytes(bytes)} ${categoryLabel(context.model, category)}`).join(", ")}.` : "";
  }

  function update(state) {
    const instant = instantOf(state, model), other = secondOf(state);
    if (instant !== at || other !== second || !tree) {
      const newly = (other === null) !== (second === null) || !tree;
      [at, second] = [instant, other];
      entriesA = aliveByClass(model, at);
      entriesB = second === null ? null : aliveByClass(model, second);
      tree = treeOf(entriesA, entriesB);
      while (path.length && follow(tree, path) === follow(tree, path.slice(0, -1))) path = path.slice(0, -1);
      drawHeading();
      drawCrumbs();
      drawTree();
      refreshTable(newly);
    }
    if (typeof state.filter === "string" && state.filter !== table.searchBox.value) table.search(state.filter);
  }

  update(store.get());
  return { update, destroy() { clear(root); } };
}

export const part = { id: "who", title: "Who", create };
