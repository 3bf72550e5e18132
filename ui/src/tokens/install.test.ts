import { expect, test } from "vitest";
import { installLines } from "./install";

const wheel = { path: "/client/a.whl", sha256: "0123", certificate: "sha256:ab" };

test("the command line is installed from the service and logs in to it", () => {
  expect(installLines({ ...wheel, certificate: null }, "http://gpu1:8000")).toEqual([
    'uv tool install "schedulearn[cli] @ http://gpu1:8000/client/a.whl"',
    "schedulearn login http://gpu1:8000",
  ]);
});

test("with a certificate of the service's own, the hash is checked and the certificate named", () => {
  expect(installLines(wheel, "https://gpu1:8000")).toEqual([
    'pipx install --pip-args="--trusted-host gpu1:8000" "schedulearn[cli] @ https://gpu1:8000/client/a.whl#sha256=0123"',
    "schedulearn login https://gpu1:8000 --ca sha256:ab",
  ]);
});
