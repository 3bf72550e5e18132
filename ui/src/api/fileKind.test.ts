import { describe, expect, it } from "vitest";
import { fileAddress, isPicture, textOf } from "./fileKind";

describe("textOf", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);

  it("reads text, also one that is cut within a character", () => {
    expect(textOf(bytes("loss 0.5\nMüll"))).toBe("loss 0.5\nMüll");
    expect(textOf(bytes("Mü").slice(0, 2))).toBe("M");
  });

  it("knows bytes that are no text", () => {
    expect(textOf(new Uint8Array([80, 75, 0, 4]))).toBeNull();
    expect(textOf(new Uint8Array([0xff, 0xfe, 65]))).toBeNull();
  });
});

it("shows pictures by their name, unless they are large or may hold scripts", () => {
  expect(["a.png", "b.JPG", "c.svg", "d.html", "png"].map((name) => isPicture(name, 10))).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
  expect(isPicture("a.png", 1e9)).toBe(false);
});

it("asks for a file by a path whose parts may hold anything", () => {
  expect(fileAddress("j", "outputs/a b/ü?#%.txt")).toBe(
    "/api/v1/jobs/j/files/outputs/a%20b/%C3%BC%3F%23%25.txt",
  );
});
