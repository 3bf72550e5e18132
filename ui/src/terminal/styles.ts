/** Workarounds for xterm.js under the page's content security policy. xterm.js writes character colours into `style`
 * attributes, which the policy blocks. The object model does the same and is allowed. */
const setAttribute = Element.prototype.setAttribute;
HTMLSpanElement.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

/** Run `act` with the page's nonce on all new style elements. xterm.js creates some when it opens. */
export function withNonce(act: () => void) {
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content ?? "";
  const plain = document.createElement.bind(document);
  const create = (tag: string, options?: ElementCreationOptions) => {
    const element = plain(tag, options);
    if (tag === "style") element.nonce = nonce;
    return element;
  };
  Reflect.set(document, "createElement", create);
  try {
    act();
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}
