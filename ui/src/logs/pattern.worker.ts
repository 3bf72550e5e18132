/** Worker for users' regular expressions. One that never ends does not block the page. */
import { answer, type Question } from "./marks";

self.addEventListener("message", ({ data }: MessageEvent<Question>) => self.postMessage(answer(data)));
self.postMessage("ready");
