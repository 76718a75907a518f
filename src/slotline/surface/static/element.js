// Elements of the page. What the gateway tells becomes text and attributes, and never markup.

/** An element; `children` are nodes, or values that become text. Attributes that are null are left out. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) mark(node, name, value);
  node.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

/** Makes `text` the text of `node`; one that has it already is not touched, so that nothing is read out again. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets an attribute, or takes it away where `value` is null or false. */
export function mark(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** Shows or hides. */
export function show(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

const kept = new WeakMap();

/**
 * Makes the children of `parent` those of `items`, in their order. An item that was there before keeps its element, and
 * with it the focus: `create(item)` makes one, `update(element, item)` fills it each time.
 */
export function each(parent, items, key, create, update) {
  const before = kept.get(parent) ?? new Map();
  const names = new Set(items.map(key));
  for (const [name, node] of before) if (!names.has(name)) node.remove(); // first, so that who stays is not moved
  const after = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const node = before.get(key(item)) ?? create(item);
    after.set(key(item), node);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
    update(node, item);
  }
  kept.set(parent, after);
}
