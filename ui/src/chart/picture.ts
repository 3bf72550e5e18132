import type uPlot from "uplot";

const HEAD_PX = 36;
const KEPT_MS = 60_000;

/** Save a file from the page itself. */
export function download(file: Blob, name: string) {
  const url = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // A busy browser reads the file only later.
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

/** Draw a chart as a PNG with its title above. Several lines also get a legend. */
export async function pictureOf(plot: uPlot, title: string): Promise<Blob> {
  const drawn = plot.ctx.canvas;
  const ratio = devicePixelRatio;
  const several = plot.series.filter((each, index) => index > 0 && each.show && each.label);
  const head = HEAD_PX * ratio * (several.length > 1 ? 2 : 1);
  const canvas = document.createElement("canvas");
  canvas.width = drawn.width;
  canvas.height = drawn.height + head;
  const ctx = canvas.getContext("2d");
  if (!ctx) throw new Error("this browser can't create pictures");
  const look = getComputedStyle(plot.root);
  ctx.fillStyle = getComputedStyle(document.body).backgroundColor;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = look.color;
  ctx.font = `600 ${15 * ratio}px ${look.fontFamily}`;
  ctx.fillText(title, 12 * ratio, 24 * ratio);
  if (several.length > 1) {
    ctx.font = `${12 * ratio}px ${look.fontFamily}`;
    let left = 12 * ratio;
    for (const each of several) {
      const { stroke, label } = each as { stroke?: unknown; label?: unknown };
      ctx.fillStyle = typeof stroke === "function" ? String(stroke()) : look.color;
      ctx.fillRect(left, 52 * ratio, 12 * ratio, 3 * ratio);
      ctx.fillStyle = look.color;
      ctx.fillText(String(label), left + 17 * ratio, 58 * ratio);
      left += ctx.measureText(String(label)).width + 34 * ratio;
    }
  }
  ctx.drawImage(drawn, 0, head);
  return new Promise((done, failed) =>
    canvas.toBlob(
      (file) => (file ? done(file) : failed(new Error("the picture could not be created"))),
      "image/png",
    ),
  );
}
