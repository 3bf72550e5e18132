import type { components } from "./schema";

type Schemas = components["schemas"];

export type Job = Schemas["JobOut"];
export type JobDetail = Schemas["JobDetail"];
export type JobPage = Schemas["JobPage"];
export type JobSpec = Schemas["JobSpec"];
export type JobState = Schemas["JobStatus"];
export type Task = Schemas["TaskOut"];
export type ServiceEvent = Schemas["EventOut"];
export type Host = Schemas["HostOut"];
export type Gpu = Schemas["GpuOut"];
export type Policy = Schemas["PolicyOut"];
export type PolicyChoice = Schemas["PolicyIn"];
export type PolicyKind = Schemas["PolicyKind"];
export type Parameter = Schemas["ParameterOut"];
export type Problem = Schemas["Problem"];
