import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const service = process.env.SCHEDULEARN_URL ?? "http://127.0.0.1:8000";

export default defineConfig({
  base: "/ui/",
  plugins: [react()],
  // Older targets make the CSS minifier rewrite light-dark(), which then no longer follows Mantine's colour scheme.
  build: {
    outDir: "../api/static",
    emptyOutDir: true,
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // A data: URL would need its own exception in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // All styles with the first screen, some KiB more: one that is missing later would leave a screen undressed.
    cssCodeSplit: false,
  },
  server: { proxy: { "/api": service } },
});
