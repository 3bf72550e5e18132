import { type ComponentType, createElement, type ReactElement, use } from "react";
import { connection } from "../api/service";

/** The code of a part of the page can't be had, though the service answers. */
export class MissingCode extends Error {
  override readonly name = "MissingCode";
  readonly code: { readonly name: string; forget: () => void };

  constructor(code: MissingCode["code"], cause: unknown) {
    super(`the code of ${code.name} could not be loaded`, { cause });
    this.code = code;
  }
}

/** So often code is asked for while the service answers. */
const TRIES = 3;

/** All that is known of. The code of a screen adds that of its own parts. */
const known: { prefetch: () => Promise<void> }[] = [];

const FIRST_MS = 1_500;

/** Fetches all code when there is nothing else to do, one after the other: a screen opens at once, and also when the
 * service has stopped. Gives back what ends it. */
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

/** Safari has no requestIdleCallback. */
const whenIdle = (act: () => void) => (window.requestIdleCallback ?? ((then) => setTimeout(then, 100)))(act);

/** A part of the page whose code is fetched when it is first drawn, or before. */
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

  /** Waits for its code: to be drawn below a Part. */
  readonly Component = (props: P): ReactElement => {
    const Loaded = this.#loaded ?? use(this.#get());
    return createElement(Loaded, props);
  };

  /** Fetches it before it is wanted. What fails here is fetched again, and told, when it is. */
  prefetch(): Promise<void> {
    return this.#get().then(
      () => {},
      () => this.forget(),
    );
  }

  /** The next time it is wanted, it is fetched again. */
  forget = () => {
    this.#fetching = undefined;
  };

  /** The same promise until it is forgotten, for React asks for it again after each wait. */
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
        connection.failed(); // perhaps: the connection finds out
        await connection.back();
        if (tried === TRIES) throw new MissingCode(this, error);
      }
    }
  }
}

const keyOf = (name: string) => `schedulearn-reloaded-${name}`;

/** Reloads the page for code that is missing, but only once until that code was there; tells whether it does. */
export function reloadOnceFor(name: string): boolean {
  try {
    if (sessionStorage.getItem(keyOf(name)) !== null) return false;
    sessionStorage.setItem(keyOf(name), "1");
  } catch {
    return false; // without a memory it might reload for ever
  }
  window.location.reload();
  return true;
}

function forgetReload(name: string) {
  try {
    sessionStorage.removeItem(keyOf(name));
  } catch {
    // Storage is switched off: there is nothing to forget.
  }
}
