import type { components, operations } from "./schema";

type Schemas = components["schemas"];

export type Job = Schemas["JobOut"];
export type JobDetail = Schemas["JobDetail"];
export type JobPage = Schemas["JobPage"];
export type JobSpec = Schemas["JobSpec"];
export type JobSort = NonNullable<
  NonNullable<operations["list_jobs_api_v1_jobs_get"]["parameters"]["query"]>["sort"]
>;
export type JobState = Schemas["JobStatus"];
export type JobFile = Schemas["FileOut"];
export type Task = Schemas["TaskOut"];
export type ServiceEvent = Schemas["EventOut"];
export type Sweep = Schemas["SweepOut"];
export type SweepDetail = Schemas["SweepDetail"];
export type SweepState = Schemas["SweepStatus"];
export type Run = Schemas["RunOut"];
export type Host = Schemas["HostOut"];
export type HostSpec = Schemas["HostSpec"];
export type Gpu = Schemas["GpuOut"];
export type Cluster = Schemas["ClusterOut"];
export type Eta = Schemas["EtaOut"];
export type Profile = Schemas["ProfileOut"];
export type Preview = Schemas["PreviewOut"];
export type Change = Schemas["ChangeOut"];
export type Totals = Schemas["TotalsOut"];
export type Choice = Schemas["ChoiceOut"];
export type Timeline = Schemas["TimelineOut"];
export type Span = Schemas["SpanOut"];
export type Expected = Schemas["ExpectedOut"];
export type Telemetry = Schemas["TelemetryOut"];
export type Webhook = Schemas["WebhookOut"];
export type WebhookSpec = Schemas["WebhookSpec"];
export type Delivery = Schemas["DeliveryOut"];
export type Token = Schemas["TokenOut"];
export type NewToken = Schemas["NewToken"];
export type Usage = Schemas["UsageOut"];
export type Policy = Schemas["PolicyOut"];
export type PolicyChoice = Schemas["PolicyIn"];
export type PolicyKind = Schemas["PolicyKind"];
export type Parameter = Schemas["ParameterOut"];
export type Problem = Schemas["Problem"];
