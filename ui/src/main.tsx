import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@mantine/spotlight/styles.css";
import "./theme.css";
import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router";
import { queryClient } from "./api/access";
import { openSessionByLink } from "./api/session";
import { takePosition } from "./live/position";
import { App } from "./shell/App";
import { begin } from "./shell/screens";
import { theme, variables } from "./theme";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");

await openSessionByLink(window.location);
await takePosition();
begin(window.location);

const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content ?? "";
// The scroll lock of dialogs reads the nonce under this name.
Object.assign(window, { __webpack_nonce__: nonce });

createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={variables}
      defaultColorScheme="auto"
      getStyleNonce={() => nonce}
    >
      <Notifications position="bottom-center" />
      <QueryClientProvider client={queryClient}>
        <BrowserRouter basename="/ui">
          <App />
        </BrowserRouter>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
