/** xterm.js under our content security policy. It writes the colours of characters into `style` attributes, which the policy
 * refuses; the object model does the same and may. */
const setAttribute = Element.prototype.setAttribute;
HTMLSpanElement.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

/** While `act` runs, style elements that anybody makes have the page's nonce, for xterm.js makes some when it opens. */
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
