import { type ComponentType, createElement, type ReactElement, use } from "react";
import { connection } from "../api/service";

/** Error: the code of a part is missing, though the service replies. */
export class MissingCode extends Error {
  override readonly name = "MissingCode";
  readonly code: { readonly name: string; forget: () => void };

  constructor(code: MissingCode["code"], cause: unknown) {
    super(`the code of ${code.name} could not be loaded`, { cause });
    this.code = code;
  }
}

/** Maximum attempts to load code while the service replies. */
const TRIES = 3;

/** All parts known. The code of a screen adds its own parts. */
const known: { prefetch: () => Promise<void> }[] = [];

const FIRST_MS = 1_500;

/** Load all code while idle, one part after the other. Return a function that stops it. Screens then open at once,
 * even when the service has stopped. */
export function prefetchWhenIdle(): () => void {
  let ended = false;
  let at = 0;
  function next() {
    const code = known[at++];
    if (!ended && code) whenIdle(() => void code.prefetch().then(next));
  }
  const timer = setTimeout(next, FIRST_MS);
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

/** Run an action when idle. Safari has no requestIdleCallback. */
const whenIdle = (act: () => void) => (window.requestIdleCallback ?? ((then) => setTimeout(then, 100)))(act);

/** Part of the page whose code loads at its first use or before. */
export class Code<P extends object> {
  readonly name: string;
  readonly #load: () => Promise<{ default: ComponentType<P> }>;
  #fetching: Promise<ComponentType<P>> | undefined;
  #loaded: ComponentType<P> | undefined;

  constructor(name: string, load: () => Promise<{ default: ComponentType<P> }>) {
    this.name = name;
    this.#load = load;
    known.push(this);
  }

  /** Component that suspends until its code has loaded. It must be inside a Part. */
  readonly Component = (props: P): ReactElement => {
    const Loaded = this.#loaded ?? use(this.#get());
    return createElement(Loaded, props);
  };

  /** Load the code in advance. After a failure, the first use loads it again and reports errors. */
  prefetch(): Promise<void> {
    return this.#get().then(
      () => {},
      () => this.forget(),
    );
  }

  /** Load the code again at the next use. */
  forget = () => {
    this.#fetching = undefined;
  };

  /** Return the same promise until it is forgotten. React asks again after each wait. */
  #get(): Promise<ComponentType<P>> {
    this.#fetching ??= this.#fetch();
    return this.#fetching;
  }

  async #fetch(): Promise<ComponentType<P>> {
    for (let tried = 1; ; tried++) {
      try {
        const { default: loaded } = await this.#load();
        this.#loaded = loaded;
        forgetReload(this.name);
        return loaded;
      } catch (error) {
        connection.failed(); // perhaps an outage: the connection's probe finds out
        await connection.back();
        if (tried === TRIES) throw new MissingCode(this, error);
      }
    }
  }
}

const keyOf = (name: string) => `schedulearn-reloaded-${name}`;

/** Reload the page for missing code, but only once. After the code has loaded, it may reload again. Return whether
 * it reloads. */
export function reloadOnceFor(name: string): boolean {
  try {
    if (sessionStorage.getItem(keyOf(name)) !== null) return false;
    sessionStorage.setItem(keyOf(name), "1");
  } catch {
    return false; // without storage the page might reload for ever
  }
  window.location.reload();
  return true;
}

function forgetReload(name: string) {
  try {
    sessionStorage.removeItem(keyOf(name));
  } catch {
    // Storage is disabled, so there is nothing to remove.
  }
}
