CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE runs (
	id INTEGER NOT NULL,
	digest VARCHAR(32) NOT NULL,
	cluster VARCHAR(64) NOT NULL,
	job_id INTEGER NOT NULL,
	submit_s INTEGER NOT NULL,
	state VARCHAR(16) NOT NULL,
	user VARCHAR(255) NOT NULL,
	name VARCHAR(255) NOT NULL,
	uid INTEGER,
	account TEXT NOT NULL,
	partition TEXT NOT NULL,
	qos TEXT NOT NULL,
	array_job_id INTEGER,
	array_task_id INTEGER,
	het_job_id INTEGER,
	het_offset INTEGER,
	cancelled_by VARCHAR(255) NOT NULL,
	exit_code INTEGER,
	exit_signal INTEGER,
	eligible_s INTEGER,
	start_s INTEGER,
	end_s INTEGER,
	elapsed_s DOUBLE NOT NULL,
	limit_s INTEGER,
	nodes INTEGER NOT NULL,
	req_nodes INTEGER,
	cpus INTEGER NOT NULL,
	tasks INTEGER,
	node_list TEXT NOT NULL,
	constraints TEXT NOT NULL,
	reservation TEXT NOT NULL,
	req_mem_bytes INTEGER,
	cpu_s DOUBLE,
	disk_read_bytes INTEGER,
	disk_write_bytes INTEGER,
	mem_bytes INTEGER,
	submit_line TEXT NOT NULL,
	work_dir TEXT NOT NULL,
	comment TEXT NOT NULL,
	admin_comment TEXT NOT NULL,
	tag VARCHAR(255) NOT NULL,
	script VARCHAR(64) NOT NULL,
	line VARCHAR(64) NOT NULL,
	decision_id VARCHAR(32) NOT NULL, gpus INTEGER, gpu_percent DOUBLE, gpu_mem_bytes INTEGER, gpu_types VARCHAR(255) DEFAULT '' NOT NULL, req_gpu_types VARCHAR(255) DEFAULT '' NOT NULL, req_cpus INTEGER, req_gpus INTEGER,
	PRIMARY KEY (id),
	CONSTRAINT uq_runs_key UNIQUE (cluster, submit_s, job_id)
);
CREATE TABLE steps (
	run_id INTEGER NOT NULL,
	position INTEGER NOT NULL,
	step VARCHAR(255) NOT NULL,
	name TEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	nodes INTEGER NOT NULL,
	tasks INTEGER,
	cpus INTEGER NOT NULL,
	start_s INTEGER,
	end_s INTEGER,
	elapsed_s DOUBLE NOT NULL,
	cpu_s DOUBLE,
	disk_read_bytes INTEGER,
	disk_write_bytes INTEGER,
	mem_bytes INTEGER, user_cpu_s DOUBLE, system_cpu_s DOUBLE, lustre_read_bytes INTEGER, lustre_write_bytes INTEGER, net_in_bytes INTEGER, net_out_bytes INTEGER, energy_j INTEGER, gpu_percent DOUBLE, gpu_mem_bytes INTEGER,
	PRIMARY KEY (run_id, position),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE TABLE decisions (
	decision_id VARCHAR(32) NOT NULL,
	cluster VARCHAR(64) NOT NULL,
	at_s DOUBLE NOT NULL,
	mode VARCHAR(32) NOT NULL,
	via VARCHAR(32) NOT NULL,
	action VARCHAR(32) NOT NULL,
	reason VARCHAR(255) NOT NULL,
	uid INTEGER,
	user VARCHAR(255) NOT NULL,
	name VARCHAR(255) NOT NULL,
	work_dir TEXT NOT NULL,
	account TEXT NOT NULL,
	partition TEXT NOT NULL,
	qos TEXT NOT NULL,
	tag VARCHAR(255) NOT NULL,
	script VARCHAR(64) NOT NULL,
	line VARCHAR(64) NOT NULL,
	key_level VARCHAR(16) NOT NULL,
	"key" VARCHAR(560) NOT NULL,
	label TEXT NOT NULL,
	verdict VARCHAR(32) NOT NULL,
	min_nodes INTEGER,
	max_nodes INTEGER,
	requested_nodes INTEGER,
	limit_s INTEGER,
	deadline_s DOUBLE,
	nodes INTEGER,
	applied BOOLEAN NOT NULL,
	predicted_s DOUBLE,
	low_s DOUBLE,
	high_s DOUBLE,
	request_predicted_s DOUBLE,
	wait_s DOUBLE,
	message TEXT NOT NULL,
	run_id INTEGER, given_limit_s INTEGER, given_min_s INTEGER, request_low_s DOUBLE, request_high_s DOUBLE, request_wait_s DOUBLE, confidence DOUBLE, unit VARCHAR(16) DEFAULT 'nodes' NOT NULL, given_mem_mib INTEGER, asked_mem_mib INTEGER,
	PRIMARY KEY (decision_id),
	UNIQUE (run_id),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE SET NULL
);
CREATE TABLE fits (
	level VARCHAR(16) NOT NULL,
	"key" VARCHAR(560) NOT NULL,
	label TEXT NOT NULL,
	verdict VARCHAR(32) NOT NULL,
	model VARCHAR(255) NOT NULL,
	fitted_s DOUBLE NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (level, "key")
);
CREATE TABLE watermarks (
	source VARCHAR(255) NOT NULL,
	epoch_s INTEGER NOT NULL,
	PRIMARY KEY (source)
);
CREATE TABLE rejects (
	digest VARCHAR(32) NOT NULL,
	source TEXT NOT NULL,
	reason TEXT NOT NULL,
	text TEXT NOT NULL,
	seen_s INTEGER NOT NULL,
	PRIMARY KEY (digest)
);
CREATE TABLE counters (
	name VARCHAR(32) NOT NULL,
	value INTEGER NOT NULL,
	PRIMARY KEY (name)
);
CREATE INDEX ix_runs_tag ON runs (tag);
CREATE INDEX ix_runs_script ON runs (script);
CREATE INDEX ix_runs_line ON runs (line);
CREATE INDEX ix_runs_user_name ON runs (user, name);
CREATE INDEX ix_runs_decision_id ON runs (decision_id);
CREATE INDEX ix_decisions_at_s ON decisions (at_s);
CREATE TABLE probes (
	resource VARCHAR(16) NOT NULL,
	source VARCHAR(255) NOT NULL,
	target VARCHAR(255) NOT NULL,
	at_s DOUBLE NOT NULL,
	value DOUBLE,
	size_bytes INTEGER,
	took_s DOUBLE NOT NULL,
	error TEXT NOT NULL,
	PRIMARY KEY (resource, source, target, at_s)
);
CREATE TABLE profiles (
	cluster VARCHAR(64) NOT NULL,
	node VARCHAR(255) NOT NULL,
	at_s DOUBLE NOT NULL,
	node_type VARCHAR(255) NOT NULL,
	job_id INTEGER,
	cpus INTEGER,
	cpu_events_per_s DOUBLE,
	cpu_all_events_per_s DOUBLE,
	mem_bandwidth_bytes_per_s DOUBLE,
	mem_latency_s DOUBLE,
	disk_read_bytes_per_s DOUBLE,
	disk_write_bytes_per_s DOUBLE,
	disk_latency_s DOUBLE,
	net_bandwidth_bytes_per_s DOUBLE,
	net_latency_s DOUBLE,
	error TEXT NOT NULL,
	PRIMARY KEY (cluster, node, at_s)
);
CREATE INDEX ix_probes_at_s ON probes (at_s);
CREATE INDEX ix_decisions_key ON decisions ("key", at_s);
CREATE TABLE standings (
	level VARCHAR(16) NOT NULL,
	"key" VARCHAR(560) NOT NULL,
	label TEXT NOT NULL,
	off BOOLEAN NOT NULL,
	ratio DOUBLE NOT NULL,
	runs INTEGER NOT NULL,
	low DOUBLE NOT NULL,
	high DOUBLE NOT NULL,
	since_s DOUBLE NOT NULL,
	judged_s DOUBLE NOT NULL,
	PRIMARY KEY (level, "key")
);
CREATE TABLE contributions (
	cluster VARCHAR(64) NOT NULL,
	submit_s INTEGER NOT NULL,
	job_id INTEGER NOT NULL,
	digest VARCHAR(32) NOT NULL,
	tag VARCHAR(255) NOT NULL,
	script VARCHAR(64) NOT NULL,
	line VARCHAR(64) NOT NULL,
	basis VARCHAR(32) NOT NULL,
	node_type VARCHAR(255) NOT NULL,
	nodes INTEGER NOT NULL,
	tasks_node DOUBLE NOT NULL,
	time_s DOUBLE NOT NULL,
	figures TEXT NOT NULL,
	PRIMARY KEY (cluster, submit_s, job_id)
);
CREATE TABLE sums (
	digest VARCHAR(32) NOT NULL,
	level VARCHAR(16) NOT NULL,
	"key" VARCHAR(560) NOT NULL,
	node_type VARCHAR(255) NOT NULL,
	form VARCHAR(32) NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (digest)
);
CREATE INDEX ix_sums_key ON sums (level, "key");
CREATE INDEX ix_decisions_user ON decisions (user, at_s);
CREATE TABLE records (
	level VARCHAR(16) NOT NULL,
	"key" VARCHAR(560) NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (level, "key")
);
INSERT INTO counters VALUES ('runs', 1);
INSERT INTO counters VALUES ('fits', 0);
INSERT INTO counters VALUES ('standings', 0);
INSERT INTO counters VALUES ('sums', 0);
INSERT INTO alembic_version VALUES ('0013');
