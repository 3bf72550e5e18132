-- A database of the first schema, as the first version left it: a job that ended, one that runs, one that waits.
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE event (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at FLOAT NOT NULL, 
	kind VARCHAR NOT NULL, 
	job_id VARCHAR, 
	host_id VARCHAR, 
	code VARCHAR NOT NULL, 
	message TEXT NOT NULL, 
	data JSON NOT NULL
);
INSERT INTO "event" VALUES(1,1790000001.0,'job.queued','job0000001',NULL,'submitted','Submitted.','{}');
CREATE TABLE gpu (
	uuid VARCHAR NOT NULL, 
	host_id VARCHAR NOT NULL, 
	ordinal INTEGER NOT NULL, 
	type VARCHAR NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	simulated BOOLEAN NOT NULL, 
	present BOOLEAN NOT NULL, 
	PRIMARY KEY (uuid), 
	FOREIGN KEY(host_id) REFERENCES host (id) ON DELETE CASCADE
);
INSERT INTO "gpu" VALUES('GPU-0','local',0,'simulated',17179869184,1,1);
INSERT INTO "gpu" VALUES('GPU-1','local',1,'simulated',17179869184,1,1);
CREATE TABLE host (
	id VARCHAR NOT NULL, 
	address VARCHAR NOT NULL, 
	runtime VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	labels JSON NOT NULL, 
	position INTEGER NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT host_state CHECK (state IN ('active', 'cordoned'))
);
INSERT INTO "host" VALUES('local','local processes','process','active','{}',0);
CREATE TABLE job (
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	type VARCHAR NOT NULL, 
	container_image VARCHAR NOT NULL, 
	command TEXT NOT NULL, 
	required_gpus INTEGER NOT NULL, 
	min_gpus INTEGER NOT NULL, 
	max_gpus INTEGER NOT NULL, 
	elastic BOOLEAN NOT NULL, 
	priority INTEGER NOT NULL, 
	weight FLOAT NOT NULL, 
	deadline FLOAT, 
	max_duration FLOAT, 
	max_restarts INTEGER NOT NULL, 
	launcher VARCHAR NOT NULL, 
	env JSON NOT NULL, 
	shm_bytes BIGINT NOT NULL, 
	labels JSON NOT NULL, 
	user VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	message TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	restarts INTEGER NOT NULL, 
	losses INTEGER NOT NULL, 
	exit_code INTEGER, 
	submitted_at FLOAT NOT NULL, 
	started_at FLOAT, 
	finished_at FLOAT, 
	run_seconds FLOAT NOT NULL, 
	gpu_seconds FLOAT NOT NULL, 
	pull_percent FLOAT, 
	idempotency_key VARCHAR, 
	request_hash VARCHAR, 
	PRIMARY KEY (id), 
	CONSTRAINT job_finished CHECK ((finished_at IS NOT NULL) = (status IN ('succeeded','failed','cancelled','timeout'))), 
	CONSTRAINT job_status CHECK (status IN ('queued', 'pulling', 'starting', 'running', 'resizing', 'stopping', 'succeeded', 'failed', 'cancelled', 'timeout')), 
	CONSTRAINT job_priority CHECK (priority BETWEEN 0 AND 100), 
	CONSTRAINT job_gpus CHECK (required_gpus >= 1 AND min_gpus >= 1 AND max_gpus >= min_gpus), 
	UNIQUE (idempotency_key)
);
INSERT INTO "job" VALUES('job0000001','first','Pytorch','img','python train.py',1,1,1,0,50,1.0,NULL,NULL,0,'none','{"A": "1"}',1073741824,'{}','','succeeded','completed','The command ended with exit code 0.',3,1,0,0,0,1790000001.0,1790000002.0,1790000060.0,58.0,58.0,NULL,NULL,NULL);
INSERT INTO "job" VALUES('job0000002','second','Pytorch','img','python train.py',1,1,1,0,50,1.0,NULL,NULL,0,'none','{"A": "1"}',1073741824,'{}','','running','container_running','Running on local (1 GPU).',3,1,0,0,NULL,1790000002.0,1790000061.0,NULL,0.0,0.0,NULL,NULL,NULL);
INSERT INTO "job" VALUES('job0000003','third','Pytorch','img','python train.py',1,1,1,0,50,1.0,NULL,NULL,0,'none','{"A": "1"}',1073741824,'{}','','queued','waiting_for_gpus','It needs 1 GPU.',3,0,0,0,NULL,1790000003.0,NULL,NULL,0.0,0.0,NULL,NULL,NULL);
CREATE TABLE lease (
	gpu_uuid VARCHAR NOT NULL, 
	slot INTEGER NOT NULL, 
	task_id VARCHAR NOT NULL, 
	claimed_at FLOAT NOT NULL, 
	PRIMARY KEY (gpu_uuid, slot), 
	FOREIGN KEY(gpu_uuid) REFERENCES gpu (uuid), 
	FOREIGN KEY(task_id) REFERENCES task (id)
);
INSERT INTO "lease" VALUES('GPU-0',0,'schedulearn-job0000002-1-0',1790000002.0);
CREATE TABLE meta (
	"key" VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('cluster_id','0123456789abcdef');
CREATE TABLE policy (
	id INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	algorithm VARCHAR NOT NULL, 
	metric VARCHAR NOT NULL, 
	params JSON NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "policy" VALUES(1,1790000000.0,'fifo','default','{}');
CREATE TABLE task (
	seq INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	job_id VARCHAR NOT NULL, 
	attempt INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	host_id VARCHAR NOT NULL, 
	gpu_uuids JSON NOT NULL, 
	state VARCHAR NOT NULL, 
	stop BOOLEAN NOT NULL, 
	created_at FLOAT NOT NULL, 
	started_at FLOAT, 
	finished_at FLOAT, 
	exit_code INTEGER, 
	outcome VARCHAR NOT NULL, 
	error TEXT NOT NULL, 
	PRIMARY KEY (seq), 
	CONSTRAINT task_state CHECK (state IN ('wanted', 'running', 'ended')), 
	FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE, 
	UNIQUE (id), 
	UNIQUE (job_id, attempt, rank)
);
INSERT INTO "task" VALUES(1,'schedulearn-job0000001-1-0','job0000001',1,0,'local','["GPU-0"]','ended',0,1790000001.0,1790000002.0,1790000060.0,0,'completed','');
INSERT INTO "task" VALUES(2,'schedulearn-job0000002-1-0','job0000002',1,0,'local','["GPU-0"]','running',0,1790000002.0,1790000003.0,NULL,NULL,'','');
CREATE INDEX event_by_job ON event (job_id, id);
CREATE INDEX job_by_status ON job (status, submitted_at);
CREATE INDEX job_by_time ON job (submitted_at, id);
CREATE INDEX task_by_state ON task (state);
CREATE UNIQUE INDEX task_one_live_a_rank ON task (job_id, rank) WHERE state != 'ended';
CREATE INDEX ix_lease_task_id ON lease (task_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('event',1);
COMMIT;
