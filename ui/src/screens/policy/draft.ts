import type { Parameter, Policy, PolicyChoice, PolicyKind } from "../../api/types";

export interface Draft {
  algorithm: string;
  metric: string;
  /** Parameters that differ from the policy's defaults or were set explicitly. */
  params: Record<string, unknown>;
}

export function kindOf(policy: Policy, algorithm: string): PolicyKind | undefined {
  return policy.available.find((kind) => kind.name === algorithm);
}

export function draftOf({ algorithm, metric, params }: Policy): Draft {
  return { algorithm, metric, params };
}

/** Return a draft for another algorithm. Its parameters have their defaults. The metric stays if the algorithm knows
 * it. */
export function withAlgorithm(policy: Policy, draft: Draft, algorithm: string): Draft {
  if (algorithm === policy.algorithm) return draftOf(policy);
  const metrics = kindOf(policy, algorithm)?.metrics ?? [];
  const metric = metrics.includes(draft.metric) ? draft.metric : (metrics[0] ?? "default");
  return { algorithm, metric, params: {} };
}

/** Set a parameter, or reset it to its default with `undefined`. */
export function withParameter(draft: Draft, name: string, value: unknown): Draft {
  const { [name]: _, ...others } = draft.params;
  return { ...draft, params: value === undefined ? others : { ...others, [name]: value } };
}

export function isChanged(policy: Policy, draft: Draft): boolean {
  return canonical(draftOf(policy)) !== canonical(draft);
}

function canonical({ algorithm, metric, params }: Draft): string {
  return JSON.stringify([algorithm, metric, Object.entries(params).toSorted()]);
}

/** Return the choice in the service's form, without other data. */
export function choiceOf({ algorithm, metric, params }: Draft): PolicyChoice {
  return { algorithm, metric, params };
}

type Kind = "choice" | "switch" | "number" | "text";

/** Return the input kind of a parameter. Its type is a Python type. */
export function inputKind({ type, default: value, choices }: Parameter): Kind {
  if (choices.length) return "choice";
  if (typeof value === "boolean" || type === "bool") return "switch";
  return typeof value === "number" || /^(int|float)\b/.test(type) ? "number" : "text";
}
