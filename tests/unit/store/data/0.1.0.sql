-- A database of version 0.1.0, with a job in every state. Made once by its own code; test_upgrade.py opens it.
BEGIN TRANSACTION;
CREATE TABLE account (
	name VARCHAR NOT NULL, 
	id INTEGER NOT NULL, 
	removed_at FLOAT, 
	role VARCHAR NOT NULL, 
	created_at FLOAT NOT NULL, 
	uid INTEGER, 
	gid INTEGER, 
	gids JSON DEFAULT '[]' NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "account" VALUES('ada',1,NULL,'user',1.79576855358093500142e+09,NULL,NULL,'[]');
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
INSERT INTO "alembic_version" VALUES('0057');
CREATE TABLE api_token (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	created_at FLOAT NOT NULL, 
	last_used_at FLOAT, 
	owner VARCHAR DEFAULT '' NOT NULL, 
	role VARCHAR DEFAULT 'admin' NOT NULL, 
	expires_at FLOAT, 
	parent_id INTEGER, 
	UNIQUE (name), 
	UNIQUE (hash)
);
INSERT INTO "api_token" VALUES(1,'ada''s','39d9fcd7e036b70a8d6d41deb2cca93c57cd98e5fecc0f0dfb62505477c63005',1.7957685536006088257e+09,NULL,'ada','user',1.80354455360038733484e+09,NULL);
CREATE TABLE capacity (
	at FLOAT NOT NULL, 
	gpus INTEGER NOT NULL, 
	PRIMARY KEY (at)
);
INSERT INTO "capacity" VALUES(1.79576856041285943992e+09,12);
CREATE TABLE cluster_minute (
	minute INTEGER NOT NULL, 
	utility FLOAT NOT NULL, 
	low FLOAT, 
	high FLOAT, 
	PRIMARY KEY (minute)
);
CREATE TABLE data_version (
	name VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	bytes BIGINT NOT NULL, 
	files INTEGER NOT NULL, 
	user VARCHAR NOT NULL, 
	job_id VARCHAR, 
	created_at FLOAT NOT NULL, 
	removed_at FLOAT, 
	PRIMARY KEY (name, version)
);
CREATE TABLE deleted_task (
	id VARCHAR NOT NULL, 
	job_id VARCHAR NOT NULL, 
	user VARCHAR NOT NULL, 
	labels JSON NOT NULL, 
	created_at FLOAT NOT NULL, 
	finished_at FLOAT, 
	gpu_uuids JSON NOT NULL, 
	energy_joules FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE event (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at FLOAT NOT NULL, 
	kind VARCHAR NOT NULL, 
	job_id VARCHAR, 
	host_id VARCHAR, 
	code VARCHAR NOT NULL, 
	message TEXT NOT NULL, 
	data JSON NOT NULL, 
	actor VARCHAR DEFAULT '' NOT NULL
);
INSERT INTO "event" VALUES(1,1.79576855358093500142e+09,'user.created',NULL,NULL,'user','User ada was created, as user.','{}','root');
INSERT INTO "event" VALUES(2,1.7957685536006088257e+09,'token.created',NULL,NULL,'','Token "ada''s" was created.','{}','root');
INSERT INTO "event" VALUES(3,1.79576855362892436984e+09,'webhook.added',NULL,NULL,'','Webhook 1 was added.','{}','root');
INSERT INTO "event" VALUES(4,1.79576855364624214175e+09,'quota.changed',NULL,NULL,'','Quota of ada: gpus 2, weight 1.','{"gpus": 2, "weight": 1.0}','root');
INSERT INTO "event" VALUES(5,1.79576855365628337856e+09,'job.queued','0v71z9301x',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(6,1.79576855371287965774e+09,'job.starting','0v71z9301x',NULL,'placed','Given GPUs: 2 on local.','{}','');
INSERT INTO "event" VALUES(7,1.79576855379114890096e+09,'job.running','0v71z9301x',NULL,'container_running','Running on local (2 GPUs).','{}','');
INSERT INTO "event" VALUES(8,1.79576855386870622632e+09,'job.succeeded','0v71z9301x',NULL,'completed','The command ended with exit code 0.','{}','');
INSERT INTO "event" VALUES(9,1.79576855388909792897e+09,'job.queued','0v71z9301y',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(10,1.79576855392425966265e+09,'job.starting','0v71z9301y',NULL,'placed','Given GPUs: 2 on local.','{}','');
INSERT INTO "event" VALUES(11,1.79576855407407307623e+09,'job.running','0v71z9301y',NULL,'container_running','Running on local (2 GPUs).','{}','');
INSERT INTO "event" VALUES(12,1.79576855417093205454e+09,'job.failed','0v71z9301y',NULL,'command_failed','The command ended with exit code 3.','{}','');
INSERT INTO "event" VALUES(13,1795768554.21605,'job.queued','0v71zadzfs',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(14,1.79576855422173500059e+09,'job.cancelled','0v71zadzfs',NULL,'cancelled','Cancelled while it waited.','{}','root');
INSERT INTO "event" VALUES(15,1.79576855422882580761e+09,'job.queued','0v71zadzft',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(16,1.7957685543049192429e+09,'job.starting','0v71zadzft',NULL,'placed','Given GPUs: 2 on local.','{}','');
INSERT INTO "event" VALUES(17,1.79576855438005065918e+09,'job.running','0v71zadzft',NULL,'container_running','Running on local (2 GPUs).','{}','');
INSERT INTO "event" VALUES(18,1795768555.39964,'job.stopping','0v71zadzft',NULL,'time_limit_reached','It has run for its max_duration of 1 s.','{}','');
INSERT INTO "event" VALUES(19,1.79576855547102546693e+09,'job.timeout','0v71zadzft',NULL,'time_limit','It has run for its max_duration of 1 s.','{}','');
INSERT INTO "event" VALUES(20,1795768555.56745,'sweep.running',NULL,NULL,'started','Sweep 0v71zbcwc0: Started with 2 runs.','{"sweep": "0v71zbcwc0"}','root');
INSERT INTO "event" VALUES(21,1.79576855557222843165e+09,'job.queued','0v71zbcwc2',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(22,1.79576855557496500013e+09,'job.queued','0v71zbcwc1',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(23,1.79576855557222843165e+09,'job.starting','0v71zbcwc2',NULL,'placed','Given GPUs: 2 on local.','{}','');
INSERT INTO "event" VALUES(24,1.79576855557222843165e+09,'job.starting','0v71zbcwc1',NULL,'placed','Given GPUs: 2 on local.','{}','');
INSERT INTO "event" VALUES(25,1.79576855568844223022e+09,'job.running','0v71zbcwc2',NULL,'container_running','Running on local (2 GPUs).','{}','');
INSERT INTO "event" VALUES(26,1.79576855568844223022e+09,'job.running','0v71zbcwc1',NULL,'container_running','Running on local (2 GPUs).','{}','');
INSERT INTO "event" VALUES(27,1.79576855860389137265e+09,'job.queued','0v71zeaw4b',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(28,1795768558.61179,'job.starting','0v71zeaw4b',NULL,'placed','Given GPUs: 2 on local.','{}','');
INSERT INTO "event" VALUES(29,1.79576855871857643132e+09,'job.running','0v71zeaw4b',NULL,'container_running','Running on local (2 GPUs).','{}','');
INSERT INTO "event" VALUES(30,1.79576856162687635426e+09,'job.queued','0v71zh6ap6',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(31,1.79576856163336682319e+09,'job.starting','0v71zh6ap6',NULL,'placed','Given GPUs: 2 on local.','{}','');
INSERT INTO "event" VALUES(32,1.79576856171448731415e+09,'job.running','0v71zh6ap6',NULL,'container_running','Running on local (2 GPUs).','{}','');
INSERT INTO "event" VALUES(33,1.79576856464958214756e+09,'job.queued','0v71zm1yxz',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(34,1.79576856466024398803e+09,'job.starting','0v71zm1yxz',NULL,'placed','Given GPUs: 2 on local.','{}','');
INSERT INTO "event" VALUES(35,1.79576856475729346269e+09,'job.running','0v71zm1yxz',NULL,'container_running','Running on local (2 GPUs).','{}','');
INSERT INTO "event" VALUES(36,1.7957685676765387058e+09,'job.queued','0v71zqcqd1',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(37,1.79576856768757677079e+09,'job.waiting','0v71zqcqd1',NULL,'waiting_for_jobs','It waits for job 0v71zbcwc1 (running) to succeed.','{}','');
INSERT INTO "event" VALUES(38,1.79576856770102620129e+09,'job.queued','0v71zqcqd2',NULL,'submitted','Submitted.','{}','root');
INSERT INTO "event" VALUES(39,1.79576856777696347239e+09,'job.waiting','0v71zqcqd2',NULL,'waiting_for_gpus','It needs 12 GPUs on one host; 2 are free in all, and no host has that many free. GPUs are kept for it: it starts when 0v71zbcwc2 ends.','{}','');
CREATE TABLE gpu (
	uuid VARCHAR NOT NULL, 
	host_id VARCHAR NOT NULL, 
	ordinal INTEGER NOT NULL, 
	type VARCHAR NOT NULL, 
	memory_bytes BIGINT NOT NULL, 
	simulated BOOLEAN NOT NULL, 
	present BOOLEAN NOT NULL, 
	fault VARCHAR DEFAULT '' NOT NULL, 
	fault_kind VARCHAR DEFAULT '' NOT NULL, 
	island INTEGER, 
	numa INTEGER, 
	occupied VARCHAR DEFAULT '' NOT NULL, 
	cleared_at FLOAT, 
	ecc_accepted INTEGER DEFAULT '0' NOT NULL, 
	unwatched VARCHAR DEFAULT '' NOT NULL, 
	failures JSON DEFAULT '[]' NOT NULL, 
	compute VARCHAR DEFAULT '' NOT NULL, 
	pci VARCHAR DEFAULT '' NOT NULL, 
	cordoned BOOLEAN DEFAULT 0 NOT NULL, 
	drain_until FLOAT, 
	PRIMARY KEY (uuid), 
	FOREIGN KEY(host_id) REFERENCES host (id) ON DELETE CASCADE
);
INSERT INTO "gpu" VALUES('GPU-0','local',0,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-1','local',1,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-2','local',2,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-3','local',3,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-4','local',4,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-5','local',5,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-6','local',6,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-7','local',7,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-8','local',8,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-9','local',9,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-10','local',10,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
INSERT INTO "gpu" VALUES('GPU-11','local',11,'simulated',17179869184,1,1,'','',NULL,NULL,'',NULL,0,'','[]','','',0,NULL);
CREATE TABLE gpu_minute (
	gpu_uuid VARCHAR NOT NULL, 
	minute INTEGER NOT NULL, 
	utilization FLOAT, 
	memory_bytes FLOAT, 
	temperature FLOAT, 
	power_w FLOAT, 
	PRIMARY KEY (gpu_uuid, minute)
)
 WITHOUT ROWID

;
INSERT INTO "gpu_minute" VALUES('GPU-0',29929475,76.0,9641983659.0,38.0,243.0);
INSERT INTO "gpu_minute" VALUES('GPU-1',29929475,76.0,9650568704.0,38.0,244.0);
INSERT INTO "gpu_minute" VALUES('GPU-10',29929475,0.0,171798688.0,34.0,57.0);
INSERT INTO "gpu_minute" VALUES('GPU-11',29929475,0.0,171798688.0,34.0,57.0);
INSERT INTO "gpu_minute" VALUES('GPU-2',29929475,48.0,6529841205.0,36.0,175.0);
INSERT INTO "gpu_minute" VALUES('GPU-3',29929475,46.0,6489992928.0,36.0,171.0);
INSERT INTO "gpu_minute" VALUES('GPU-4',29929475,8.0,1751637467.0,34.0,76.0);
INSERT INTO "gpu_minute" VALUES('GPU-5',29929475,8.0,1743469701.0,34.0,76.0);
INSERT INTO "gpu_minute" VALUES('GPU-6',29929475,0.0,171798688.0,34.0,58.0);
INSERT INTO "gpu_minute" VALUES('GPU-7',29929475,0.0,171798688.0,34.0,57.0);
INSERT INTO "gpu_minute" VALUES('GPU-8',29929475,0.0,171798688.0,34.0,56.0);
INSERT INTO "gpu_minute" VALUES('GPU-9',29929475,0.0,171798688.0,34.0,58.0);
CREATE TABLE gpu_xid (
	gpu_uuid VARCHAR NOT NULL, 
	code INTEGER NOT NULL, 
	job_id VARCHAR NOT NULL, 
	program VARCHAR NOT NULL, 
	seen_at FLOAT NOT NULL, 
	noted_at FLOAT NOT NULL, 
	PRIMARY KEY (gpu_uuid, code, job_id), 
	FOREIGN KEY(gpu_uuid) REFERENCES gpu (uuid) ON DELETE CASCADE
);
CREATE TABLE group_member (
	user VARCHAR NOT NULL, 
	"group" VARCHAR NOT NULL, 
	PRIMARY KEY (user), 
	FOREIGN KEY("group") REFERENCES user_group (name) ON DELETE CASCADE
);
CREATE TABLE host (
	id VARCHAR NOT NULL, 
	address VARCHAR NOT NULL, 
	runtime VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	labels JSON NOT NULL, 
	position INTEGER NOT NULL, 
	origin VARCHAR DEFAULT 'embedded' NOT NULL, 
	engine_id VARCHAR, 
	simulated_gpus INTEGER, 
	tls VARCHAR DEFAULT '' NOT NULL, 
	network VARCHAR DEFAULT '' NOT NULL, 
	drain_until FLOAT, 
	parking VARCHAR DEFAULT '' NOT NULL, 
	lost_at FLOAT, 
	driver VARCHAR DEFAULT '' NOT NULL, 
	topology TEXT DEFAULT '' NOT NULL, 
	gpu_fault VARCHAR DEFAULT '' NOT NULL, 
	gpu_failures JSON DEFAULT '[]' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT host_state CHECK (state IN ('active', 'cordoned'))
);
INSERT INTO "host" VALUES('local','fake','fake','active','{}',0,'embedded','fake local',NULL,'','',NULL,'',NULL,'','','','[]');
CREATE TABLE host_minute (
	host_id VARCHAR NOT NULL, 
	minute INTEGER NOT NULL, 
	cpus FLOAT, 
	memory_bytes FLOAT, 
	disk_bytes FLOAT, 
	network_in FLOAT, 
	network_out FLOAT, 
	disk_read FLOAT, 
	disk_written FLOAT, 
	PRIMARY KEY (host_id, minute)
)
 WITHOUT ROWID

;
CREATE TABLE job (
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	type VARCHAR NOT NULL, 
	container_image VARCHAR NOT NULL, 
	pull VARCHAR DEFAULT 'missing' NOT NULL, 
	command TEXT NOT NULL, 
	required_gpus INTEGER NOT NULL, 
	min_gpus INTEGER NOT NULL, 
	max_gpus INTEGER NOT NULL, 
	elastic BOOLEAN NOT NULL, 
	priority INTEGER NOT NULL, 
	weight FLOAT NOT NULL, 
	metric VARCHAR, 
	gpu_memory BIGINT, 
	deadline FLOAT, 
	max_duration FLOAT, 
	max_restarts INTEGER NOT NULL, 
	launcher VARCHAR NOT NULL, 
	env JSON NOT NULL, 
	grace_period FLOAT DEFAULT '10' NOT NULL, 
	secrets JSON DEFAULT '{}' NOT NULL, 
	shm_bytes BIGINT NOT NULL, 
	cpus FLOAT, 
	memory_bytes BIGINT, 
	mounts JSON DEFAULT '{}' NOT NULL, 
	data JSON DEFAULT '{}' NOT NULL, 
	inputs JSON DEFAULT '{}' NOT NULL, 
	keep JSON DEFAULT '{}' NOT NULL, 
	keep_state VARCHAR DEFAULT '' NOT NULL, 
	code VARCHAR, 
	code_source JSON, 
	requirements JSON, 
	layer VARCHAR DEFAULT '' NOT NULL, 
	setup TEXT, 
	gpu_type VARCHAR, 
	batch_size INTEGER, 
	max_batch_size INTEGER, 
	epochs INTEGER, 
	ports JSON DEFAULT '{}' NOT NULL, 
	idle_timeout FLOAT, 
	labels JSON NOT NULL, 
	user VARCHAR NOT NULL, 
	family VARCHAR DEFAULT '' NOT NULL, 
	status VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	message TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	restarts INTEGER NOT NULL, 
	retries INTEGER DEFAULT '0' NOT NULL, 
	losses INTEGER NOT NULL, 
	on_hang VARCHAR, 
	hangs INTEGER DEFAULT '0' NOT NULL, 
	equal_exits INTEGER DEFAULT '0' NOT NULL, 
	last_exit INTEGER, 
	exit_code INTEGER, 
	submitted_at FLOAT NOT NULL, 
	started_at FLOAT, 
	finished_at FLOAT, 
	run_seconds FLOAT NOT NULL, 
	gpu_seconds FLOAT NOT NULL, 
	pull_percent FLOAT, 
	not_before FLOAT, 
	fetch_hosts JSON DEFAULT '[]' NOT NULL, 
	checkpoint_host VARCHAR, 
	resize VARCHAR DEFAULT 'restart' NOT NULL, 
	generation INTEGER DEFAULT '0' NOT NULL, 
	trained INTEGER DEFAULT '0' NOT NULL, 
	meeting VARCHAR DEFAULT '' NOT NULL, 
	forming_at FLOAT, 
	target JSON, 
	resized_at FLOAT, 
	resized_from JSON, 
	sweep VARCHAR, 
	"after" JSON, 
	params JSON, 
	idempotency_key VARCHAR, 
	request_hash VARCHAR, 
	PRIMARY KEY (id), 
	CONSTRAINT job_status CHECK (status IN ('queued', 'pulling', 'starting', 'running', 'resizing', 'stopping', 'succeeded', 'failed', 'cancelled', 'timeout')), 
	CONSTRAINT job_gpus CHECK (required_gpus >= 0 AND min_gpus >= 0 AND max_gpus >= min_gpus), 
	CONSTRAINT job_priority CHECK (priority BETWEEN 0 AND 100), 
	CONSTRAINT job_finished CHECK ((finished_at IS NOT NULL) = (status IN ('succeeded','failed','cancelled','timeout'))), 
	UNIQUE (idempotency_key)
);
INSERT INTO "job" VALUES('0v71z9301x','succeeded','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',2,2,2,0,50,1.0,NULL,NULL,NULL,NULL,0,'horovod','{"A": "1"}',10.0,'{}',8589934592,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{"team": "vision"}','ada','schedulearn/horovod-cpu python examples/digits/train.py','succeeded','completed','The command ended with exit code 0.',3,1,0,0,0,NULL,0,0,NULL,0,1.79576855365628337856e+09,1.79576855372592711444e+09,1.79576855382986783982e+09,1.03940725326538085937e-01,2.07881450653076171875e-01,NULL,NULL,'[]','local','restart',1,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES('0v71z9301y','failed','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',2,2,2,0,50,1.0,NULL,NULL,NULL,NULL,0,'horovod','{}',10.0,'{}',8589934592,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python examples/digits/train.py','failed','command_failed','The command ended with exit code 3.',3,1,0,0,0,NULL,0,0,NULL,3,1.79576855388909792897e+09,1.79576855394913220405e+09,1.7957685541177146435e+09,1.68582439422607421875e-01,3.3716487884521484375e-01,NULL,NULL,'[]','local','restart',1,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES('0v71zadzfs','cancelled','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',2,2,2,0,50,1.0,NULL,NULL,NULL,NULL,0,'horovod','{}',10.0,'{}',8589934592,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python examples/digits/train.py','cancelled','cancelled','Cancelled while it waited.',1,0,0,0,0,NULL,0,0,NULL,NULL,1795768554.21605,NULL,1.79576855422173500059e+09,0.0,0.0,NULL,NULL,'[]',NULL,'restart',0,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES('0v71zadzft','timeout','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',2,2,2,0,50,1.0,NULL,NULL,NULL,1.0,0,'horovod','{}',10.0,'{}',8589934592,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python examples/digits/train.py','timeout','time_limit','It has run for its max_duration of 1 s.',4,1,0,0,0,NULL,0,0,NULL,NULL,1.79576855422882580761e+09,1.79576855431714797022e+09,1.79576855541152381897e+09,1.09437584877014160156e+00,2.18875169754028320312e+00,NULL,NULL,'[]','local','restart',1,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES('0v71zbcwc2','lr-1','Pytorch','schedulearn/horovod-cpu','missing','python t.py --lr 1',2,2,2,0,50,1.0,NULL,NULL,NULL,NULL,0,'horovod','{}',10.0,'{}',8589934592,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python t.py --lr','running','container_running','Running on local (2 GPUs).',2,1,0,0,0,NULL,0,0,NULL,NULL,1.79576855557222843165e+09,1.79576855559084773059e+09,NULL,0.0,0.0,NULL,NULL,'[]','local','restart',1,0,'',NULL,NULL,NULL,NULL,'0v71zbcwc0',NULL,'{"lr": 1}',NULL,NULL);
INSERT INTO "job" VALUES('0v71zbcwc1','running','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',2,1,2,1,50,1.0,NULL,NULL,NULL,NULL,0,'horovod','{}',60.0,'{}',8589934592,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python examples/digits/train.py','running','container_running','Running on local (2 GPUs).',2,1,0,0,0,NULL,0,0,NULL,NULL,1.79576855557496500013e+09,1.7957685555907719135e+09,NULL,0.0,0.0,NULL,NULL,'[]','local','restart',1,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES('0v71zeaw4b','starting','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',2,1,4096,1,50,1.0,NULL,NULL,NULL,NULL,0,'horovod','{}',60.0,'{}',8589934592,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python examples/digits/train.py','starting','container_running','Running on local (2 GPUs).',2,1,0,0,0,NULL,0,0,NULL,NULL,1.79576855860389137265e+09,1.79576855862914752963e+09,NULL,0.0,0.0,NULL,NULL,'[]','local','restart',1,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES('0v71zh6ap6','resizing','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',2,1,4096,1,50,1.0,NULL,NULL,NULL,NULL,0,'horovod','{}',60.0,'{}',8589934592,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python examples/digits/train.py','resizing','container_running','Running on local (2 GPUs).',2,1,0,0,0,NULL,0,0,NULL,NULL,1.79576856162687635426e+09,1.79576856164690780645e+09,NULL,0.0,0.0,NULL,NULL,'[]','local','restart',1,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES('0v71zm1yxz','stopping','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',2,1,4096,1,50,1.0,NULL,NULL,NULL,NULL,0,'horovod','{}',60.0,'{}',8589934592,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python examples/digits/train.py','stopping','container_running','Running on local (2 GPUs).',2,1,0,0,0,NULL,0,0,NULL,NULL,1.79576856464958214756e+09,1.79576856467598795896e+09,NULL,0.0,0.0,NULL,NULL,'[]','local','restart',1,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES('0v71zqcqd1','pulling','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',2,2,2,0,50,1.0,NULL,NULL,NULL,NULL,0,'horovod','{}',10.0,'{}',8589934592,NULL,NULL,'{}','{}','{"/inputs/running": "job:0v71zbcwc1"}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python examples/digits/train.py','pulling','submitted','Submitted.',0,0,0,0,0,NULL,0,0,NULL,NULL,1.7957685676765387058e+09,NULL,NULL,0.0,0.0,NULL,NULL,'[]',NULL,'restart',0,0,'',NULL,NULL,NULL,NULL,NULL,'{"jobs": ["0v71zbcwc1"], "when": "ok"}',NULL,NULL,NULL);
INSERT INTO "job" VALUES('0v71zqcqd2','queued','Pytorch','schedulearn/horovod-cpu','missing','python examples/digits/train.py',12,12,12,0,80,1.0,NULL,NULL,1798761600.0,NULL,0,'horovod','{}',10.0,'{}',51539607552,NULL,NULL,'{}','{}','{}','{}','',NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL,'{}',NULL,'{}','root','schedulearn/horovod-cpu python examples/digits/train.py','queued','submitted','Submitted.',0,0,0,0,0,NULL,0,0,NULL,NULL,1.79576856770102620129e+09,NULL,NULL,0.0,0.0,NULL,NULL,'[]',NULL,'restart',0,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE job_gpu_memory (
	job_id VARCHAR NOT NULL, 
	family VARCHAR NOT NULL, 
	bytes BIGINT NOT NULL, 
	PRIMARY KEY (job_id), 
	FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);
CREATE TABLE lease (
	gpu_uuid VARCHAR NOT NULL, 
	slot INTEGER NOT NULL, 
	task_id VARCHAR NOT NULL, 
	claimed_at FLOAT NOT NULL, 
	PRIMARY KEY (gpu_uuid, slot), 
	FOREIGN KEY(gpu_uuid) REFERENCES gpu (uuid), 
	FOREIGN KEY(task_id) REFERENCES task (id)
);
INSERT INTO "lease" VALUES('GPU-0',0,'schedulearn-0v71zbcwc2-1-0',1.79576855557222843165e+09);
INSERT INTO "lease" VALUES('GPU-1',0,'schedulearn-0v71zbcwc2-1-0',1.79576855557222843165e+09);
INSERT INTO "lease" VALUES('GPU-2',0,'schedulearn-0v71zbcwc1-1-0',1.79576855557222843165e+09);
INSERT INTO "lease" VALUES('GPU-3',0,'schedulearn-0v71zbcwc1-1-0',1.79576855557222843165e+09);
INSERT INTO "lease" VALUES('GPU-4',0,'schedulearn-0v71zeaw4b-1-0',1795768558.61179);
INSERT INTO "lease" VALUES('GPU-5',0,'schedulearn-0v71zeaw4b-1-0',1795768558.61179);
INSERT INTO "lease" VALUES('GPU-6',0,'schedulearn-0v71zh6ap6-1-0',1.79576856163336682319e+09);
INSERT INTO "lease" VALUES('GPU-7',0,'schedulearn-0v71zh6ap6-1-0',1.79576856163336682319e+09);
INSERT INTO "lease" VALUES('GPU-8',0,'schedulearn-0v71zm1yxz-1-0',1.79576856466024398803e+09);
INSERT INTO "lease" VALUES('GPU-9',0,'schedulearn-0v71zm1yxz-1-0',1.79576856466024398803e+09);
CREATE TABLE length_prediction (
	seq INTEGER NOT NULL, 
	job_id VARCHAR NOT NULL, 
	family VARCHAR NOT NULL, 
	owner VARCHAR DEFAULT '' NOT NULL, 
	predicted_at FLOAT NOT NULL, 
	jobs INTEGER NOT NULL, 
	value FLOAT NOT NULL, 
	low FLOAT NOT NULL, 
	high FLOAT NOT NULL, 
	stretch FLOAT DEFAULT '1' NOT NULL, 
	ended_at FLOAT, 
	actual FLOAT, 
	PRIMARY KEY (seq), 
	UNIQUE (job_id)
);
INSERT INTO "length_prediction" VALUES(1,'0v71z9301y','schedulearn/horovod-cpu python examples/digits/train.py','root',1.79576855392999386786e+09,1,2.07881450653076171875e-01,2.92667389415333725755e-02,1.47658055145665612073e+00,1.0,1.7957685541177146435e+09,NULL);
INSERT INTO "length_prediction" VALUES(2,'0v71zadzft','schedulearn/horovod-cpu python examples/digits/train.py','root',1.79576855431022953989e+09,1,2.07881450653076171875e-01,2.92667389415333725755e-02,1.47658055145665612073e+00,1.0,1.79576855541152381897e+09,NULL);
INSERT INTO "length_prediction" VALUES(3,'0v71zbcwc1','schedulearn/horovod-cpu python examples/digits/train.py','root',1.79576855558810973166e+09,1,2.07881450653076171875e-01,2.92667389415333725755e-02,1.47658055145665612073e+00,1.0,NULL,NULL);
INSERT INTO "length_prediction" VALUES(4,'0v71zeaw4b','schedulearn/horovod-cpu python examples/digits/train.py','root',1.79576855861558198936e+09,1,2.07881450653076171875e-01,2.92667389415333725755e-02,1.47658055145665612073e+00,1.0,NULL,NULL);
INSERT INTO "length_prediction" VALUES(5,'0v71zh6ap6','schedulearn/horovod-cpu python examples/digits/train.py','root',1.79576856163742923735e+09,1,2.07881450653076171875e-01,2.92667389415333725755e-02,1.47658055145665612073e+00,1.0,NULL,NULL);
INSERT INTO "length_prediction" VALUES(6,'0v71zm1yxz','schedulearn/horovod-cpu python examples/digits/train.py','root',1.79576856466381621357e+09,1,2.07881450653076171875e-01,2.92667389415333725755e-02,1.47658055145665612073e+00,1.0,NULL,NULL);
INSERT INTO "length_prediction" VALUES(7,'0v71zqcqd1','schedulearn/horovod-cpu python examples/digits/train.py','root',1.79576856769557189948e+09,1,2.07881450653076171875e-01,2.92667389415333725755e-02,1.47658055145665612073e+00,1.0,NULL,NULL);
INSERT INTO "length_prediction" VALUES(8,'0v71zqcqd2','schedulearn/horovod-cpu python examples/digits/train.py','root',1.79576856778176951407e+09,1,2.07881450653076171875e-01,2.92667389415333725755e-02,1.47658055145665612073e+00,1.0,NULL,NULL);
CREATE TABLE login_session (
	hash VARCHAR NOT NULL, 
	token_id INTEGER, 
	began_by VARCHAR NOT NULL, 
	created_at FLOAT NOT NULL, 
	expires_at FLOAT NOT NULL, 
	PRIMARY KEY (hash), 
	FOREIGN KEY(token_id) REFERENCES api_token (id) ON DELETE CASCADE
);
CREATE TABLE meta (
	"key" VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('cluster_id','6f34b079ee564980ae0b2c024cf789dd');
INSERT INTO "meta" VALUES('clock','{"boot": "adc38255-ab6e-4f7a-9c9c-0f5fe0d71ae6", "offset": 1795710897.5673604, "steps": []}');
INSERT INTO "meta" VALUES('report_secret','6351ca58983cdf3b173bafc02347a925c300dd9ca7b892db72208716087b0e64');
CREATE TABLE metric (
	job_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	points JSON NOT NULL, 
	last FLOAT, 
	lowest FLOAT, 
	highest FLOAT, 
	PRIMARY KEY (job_id, name), 
	FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);
CREATE TABLE metric_prediction (
	seq INTEGER NOT NULL, 
	job_id VARCHAR NOT NULL, 
	family VARCHAR NOT NULL, 
	owner VARCHAR DEFAULT '' NOT NULL, 
	metric VARCHAR NOT NULL, 
	predicted_at FLOAT NOT NULL, 
	model VARCHAR NOT NULL, 
	jobs INTEGER NOT NULL, 
	value FLOAT NOT NULL, 
	low FLOAT NOT NULL, 
	high FLOAT NOT NULL, 
	stretch FLOAT DEFAULT '1' NOT NULL, 
	ended_at FLOAT, 
	actual FLOAT, 
	PRIMARY KEY (seq), 
	UNIQUE (job_id, metric)
);
CREATE TABLE model_version (
	seq INTEGER NOT NULL, 
	family VARCHAR NOT NULL, 
	owner VARCHAR DEFAULT '' NOT NULL, 
	number INTEGER NOT NULL, 
	since FLOAT, 
	until FLOAT, 
	made_at FLOAT NOT NULL, 
	used_since FLOAT NOT NULL, 
	why VARCHAR NOT NULL, 
	in_use BOOLEAN NOT NULL, 
	pinned BOOLEAN NOT NULL, 
	PRIMARY KEY (seq)
);
CREATE TABLE moved_outputs (
	job_id VARCHAR NOT NULL, 
	host_id VARCHAR NOT NULL, 
	PRIMARY KEY (job_id, host_id), 
	FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);
CREATE TABLE observation (
	job_id VARCHAR NOT NULL, 
	gpu_type VARCHAR NOT NULL, 
	num_nodes INTEGER NOT NULL, 
	num_gpus INTEGER NOT NULL, 
	atomic_batch INTEGER NOT NULL, 
	passes INTEGER NOT NULL, 
	grad_time FLOAT NOT NULL, 
	iter_time FLOAT NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY (job_id, gpu_type, num_nodes, num_gpus, atomic_batch), 
	FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);
CREATE TABLE policy (
	id INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	algorithm VARCHAR NOT NULL, 
	metric VARCHAR NOT NULL, 
	params JSON NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE port_lease (
	host_id VARCHAR NOT NULL, 
	port INTEGER NOT NULL, 
	task_id VARCHAR NOT NULL, 
	PRIMARY KEY (host_id, port), 
	FOREIGN KEY(task_id) REFERENCES task (id)
);
CREATE TABLE profile (
	job_id VARCHAR NOT NULL, 
	attempt INTEGER NOT NULL, 
	reported_at FLOAT NOT NULL, 
	init_batch INTEGER NOT NULL, 
	max_batch INTEGER NOT NULL, 
	min_local INTEGER NOT NULL, 
	max_local INTEGER, 
	accumulate BOOLEAN NOT NULL, 
	atomic_batch INTEGER NOT NULL, 
	accumulation INTEGER NOT NULL, 
	why TEXT NOT NULL, 
	noise_scale FLOAT, 
	epoch INTEGER NOT NULL, 
	epochs INTEGER, 
	position INTEGER NOT NULL, 
	epoch_samples INTEGER NOT NULL, 
	steps INTEGER NOT NULL, 
	startup_seconds FLOAT, 
	PRIMARY KEY (job_id), 
	FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);
CREATE TABLE quota (
	user VARCHAR NOT NULL, 
	gpus INTEGER, 
	gpu_hours FLOAT, 
	waiting INTEGER, 
	submissions INTEGER, 
	cpu_jobs INTEGER, 
	cpus FLOAT, 
	memory_gib FLOAT, 
	weight FLOAT DEFAULT '1' NOT NULL, 
	PRIMARY KEY (user)
);
INSERT INTO "quota" VALUES('ada',2,NULL,NULL,NULL,NULL,NULL,NULL,1.0);
CREATE TABLE secret (
	owner VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	changed_at FLOAT NOT NULL, 
	PRIMARY KEY (owner, name)
);
CREATE TABLE sweep (
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	user VARCHAR NOT NULL, 
	spec JSON NOT NULL, 
	runs INTEGER NOT NULL, 
	max_parallel INTEGER NOT NULL, 
	max_failures INTEGER, 
	status VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	message TEXT NOT NULL, 
	created_at FLOAT NOT NULL, 
	finished_at FLOAT, 
	idempotency_key VARCHAR, 
	request_hash VARCHAR, 
	design JSON, 
	open BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT sweep_status CHECK (status IN ('running', 'stopping', 'completed', 'failed', 'cancelled')), 
	CONSTRAINT sweep_finished CHECK ((finished_at IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled'))), 
	UNIQUE (idempotency_key)
);
INSERT INTO "sweep" VALUES('0v71zbcwc0','lr','root','{"name": "lr", "job": {"type": "Pytorch", "container_image": "schedulearn/horovod-cpu", "command": "python t.py --lr {lr}", "required_gpus": 2, "user": "root"}, "grid": {"lr": [1, 2]}, "max_parallel": 1, "metric": {"name": "loss", "goal": "min"}}',2,1,NULL,'running','started','Started with 2 runs.',1795768555.56745,NULL,NULL,'0a59180cfc1d7e632c589753cd1b8df92a1e4976b76e7cc3bd69968ae80ae351',NULL,0);
CREATE TABLE sweep_run (
	sweep_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	params JSON NOT NULL, 
	job_id VARCHAR, 
	tries INTEGER NOT NULL, 
	results JSON, 
	PRIMARY KEY (sweep_id, number), 
	FOREIGN KEY(sweep_id) REFERENCES sweep (id) ON DELETE CASCADE, 
	UNIQUE (job_id)
);
INSERT INTO "sweep_run" VALUES('0v71zbcwc0',1,'{"lr": 1}','0v71zbcwc2',1,NULL);
INSERT INTO "sweep_run" VALUES('0v71zbcwc0',2,'{"lr": 2}',NULL,0,NULL);
CREATE TABLE task (
	seq INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	job_id VARCHAR NOT NULL, 
	attempt INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	generation INTEGER DEFAULT '0' NOT NULL, 
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
	image VARCHAR DEFAULT '' NOT NULL, 
	paused_at FLOAT, 
	paused_seconds FLOAT DEFAULT '0' NOT NULL, 
	energy_joules FLOAT DEFAULT '0' NOT NULL, 
	memory_peak BIGINT, 
	PRIMARY KEY (seq), 
	UNIQUE (job_id, attempt, rank), 
	CONSTRAINT task_state CHECK (state IN ('wanted', 'running', 'ended')), 
	UNIQUE (id), 
	FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);
INSERT INTO "task" VALUES(1,'schedulearn-0v71z9301x-1-0','0v71z9301x',1,0,0,'local','["GPU-0", "GPU-1"]','ended',0,1.79576855371287965774e+09,1.79576855372592711444e+09,1.79576855382986783982e+09,0,'completed','','',NULL,0.0,0.0,NULL);
INSERT INTO "task" VALUES(2,'schedulearn-0v71z9301y-1-0','0v71z9301y',1,0,0,'local','["GPU-0", "GPU-1"]','ended',0,1.79576855392425966265e+09,1.79576855394913220405e+09,1.7957685541177146435e+09,3,'command_failed','','',NULL,0.0,0.0,NULL);
INSERT INTO "task" VALUES(3,'schedulearn-0v71zadzft-1-0','0v71zadzft',1,0,0,'local','["GPU-0", "GPU-1"]','ended',1,1.7957685543049192429e+09,1.79576855431714797022e+09,1.79576855541152381897e+09,NULL,'time_limit','it ended while its host did not answer','',NULL,0.0,0.0,NULL);
INSERT INTO "task" VALUES(4,'schedulearn-0v71zbcwc2-1-0','0v71zbcwc2',1,0,0,'local','["GPU-0", "GPU-1"]','running',0,1.79576855557222843165e+09,1.79576855559084773059e+09,NULL,NULL,'','','',NULL,0.0,0.0,1048576);
INSERT INTO "task" VALUES(5,'schedulearn-0v71zbcwc1-1-0','0v71zbcwc1',1,0,0,'local','["GPU-2", "GPU-3"]','running',0,1.79576855557222843165e+09,1.7957685555907719135e+09,NULL,NULL,'','','',NULL,0.0,0.0,1048576);
INSERT INTO "task" VALUES(6,'schedulearn-0v71zeaw4b-1-0','0v71zeaw4b',1,0,0,'local','["GPU-4", "GPU-5"]','running',0,1795768558.61179,1.79576855862914752963e+09,NULL,NULL,'','','',NULL,0.0,0.0,1048576);
INSERT INTO "task" VALUES(7,'schedulearn-0v71zh6ap6-1-0','0v71zh6ap6',1,0,0,'local','["GPU-6", "GPU-7"]','running',0,1.79576856163336682319e+09,1.79576856164690780645e+09,NULL,NULL,'','','',NULL,0.0,0.0,1048576);
INSERT INTO "task" VALUES(8,'schedulearn-0v71zm1yxz-1-0','0v71zm1yxz',1,0,0,'local','["GPU-8", "GPU-9"]','running',0,1.79576856466024398803e+09,1.79576856467598795896e+09,NULL,NULL,'','','',NULL,0.0,0.0,NULL);
CREATE TABLE task_minute (
	task_seq INTEGER NOT NULL, 
	minute INTEGER NOT NULL, 
	cpus FLOAT, 
	memory_bytes FLOAT, 
	network_in FLOAT, 
	network_out FLOAT, 
	disk_read FLOAT, 
	disk_written FLOAT, 
	PRIMARY KEY (task_seq, minute), 
	FOREIGN KEY(task_seq) REFERENCES task (seq) ON DELETE CASCADE
)
 WITHOUT ROWID

;
CREATE TABLE user_group (
	name VARCHAR NOT NULL, 
	gpus INTEGER, 
	gpu_hours FLOAT, 
	waiting INTEGER, 
	submissions INTEGER, 
	cpu_jobs INTEGER, 
	cpus FLOAT, 
	memory_gib FLOAT, 
	PRIMARY KEY (name)
);
CREATE TABLE webhook (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	url TEXT NOT NULL, 
	events JSON NOT NULL, 
	secret TEXT NOT NULL, 
	active BOOLEAN NOT NULL, 
	created_at FLOAT NOT NULL, 
	position INTEGER NOT NULL, 
	tries INTEGER NOT NULL, 
	delivered INTEGER NOT NULL, 
	given_up INTEGER NOT NULL, 
	last_at FLOAT, 
	last_event VARCHAR NOT NULL, 
	last_status INTEGER, 
	last_error TEXT NOT NULL
);
INSERT INTO "webhook" VALUES(1,'http://example.org/hook','["job.ended", "host.lost", "gpu.unhealthy"]','',1,1.79576855362892436984e+09,2,3,0,0,1.79576856590584111217e+09,'job.succeeded',NULL,'[Errno -2] Name or service not known');
CREATE UNIQUE INDEX account_by_id ON account (id);
CREATE INDEX job_by_time ON job (submitted_at, id);
CREATE INDEX job_by_sweep ON job (sweep) WHERE sweep IS NOT NULL;
CREATE INDEX job_by_keeping ON job (keep_state) WHERE keep_state = 'pending';
CREATE INDEX job_by_family ON job (family, finished_at) WHERE attempt > 0;
CREATE INDEX job_by_status ON job (status, submitted_at);
CREATE UNIQUE INDEX host_by_engine ON host (engine_id);
CREATE INDEX event_by_job ON event (job_id, id);
CREATE INDEX sweep_by_time ON sweep (created_at, id);
CREATE INDEX sweep_by_status ON sweep (status);
CREATE INDEX deleted_task_by_end ON deleted_task (finished_at);
CREATE INDEX data_version_by_digest ON data_version (digest);
CREATE INDEX data_version_by_job ON data_version (job_id) WHERE job_id IS NOT NULL;
CREATE UNIQUE INDEX model_version_of_family ON model_version (family, owner, number);
CREATE INDEX length_prediction_by_family ON length_prediction (family, owner, seq);
CREATE INDEX metric_prediction_by_family ON metric_prediction (family, owner, metric, seq);
CREATE INDEX ix_group_member_group ON group_member ("group");
CREATE UNIQUE INDEX task_one_live_a_rank ON task (job_id, rank) WHERE state != 'ended';
CREATE INDEX task_by_end ON task (finished_at);
CREATE INDEX task_by_state ON task (state);
CREATE INDEX job_gpu_memory_by_family ON job_gpu_memory (family, bytes);
CREATE INDEX ix_lease_task_id ON lease (task_id);
CREATE INDEX ix_port_lease_task_id ON port_lease (task_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('event',39);
INSERT INTO "sqlite_sequence" VALUES('api_token',1);
INSERT INTO "sqlite_sequence" VALUES('webhook',1);
COMMIT;
