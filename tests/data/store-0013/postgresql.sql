CREATE TABLE runs (
	id BIGINT NOT NULL,
	digest VARCHAR(32) COLLATE "C" NOT NULL,
	cluster VARCHAR(64) COLLATE "C" NOT NULL,
	job_id BIGINT NOT NULL,
	submit_s BIGINT NOT NULL,
	state VARCHAR(16) COLLATE "C" NOT NULL,
	"user" VARCHAR(255) COLLATE "C" NOT NULL,
	name VARCHAR(255) COLLATE "C" NOT NULL,
	uid BIGINT,
	account TEXT NOT NULL,
	partition TEXT NOT NULL,
	qos TEXT NOT NULL,
	array_job_id BIGINT,
	array_task_id BIGINT,
	het_job_id BIGINT,
	het_offset BIGINT,
	cancelled_by VARCHAR(255) COLLATE "C" NOT NULL,
	exit_code BIGINT,
	exit_signal BIGINT,
	eligible_s BIGINT,
	start_s BIGINT,
	end_s BIGINT,
	elapsed_s DOUBLE PRECISION NOT NULL,
	limit_s BIGINT,
	nodes BIGINT NOT NULL,
	req_nodes BIGINT,
	cpus BIGINT NOT NULL,
	tasks BIGINT,
	gpus BIGINT,
	node_list TEXT NOT NULL,
	constraints TEXT NOT NULL,
	reservation TEXT NOT NULL,
	req_mem_bytes BIGINT,
	cpu_s DOUBLE PRECISION,
	disk_read_bytes BIGINT,
	disk_write_bytes BIGINT,
	mem_bytes BIGINT,
	submit_line TEXT NOT NULL,
	work_dir TEXT NOT NULL,
	comment TEXT NOT NULL,
	admin_comment TEXT NOT NULL,
	tag VARCHAR(255) COLLATE "C" NOT NULL,
	script VARCHAR(64) COLLATE "C" NOT NULL,
	line VARCHAR(64) COLLATE "C" NOT NULL,
	decision_id VARCHAR(32) COLLATE "C" NOT NULL,
	gpu_percent DOUBLE PRECISION,
	gpu_mem_bytes BIGINT,
	gpu_types VARCHAR(255) COLLATE "C" DEFAULT '' NOT NULL,
	req_cpus BIGINT,
	req_gpus BIGINT,
	req_gpu_types VARCHAR(255) COLLATE "C" DEFAULT '' NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT uq_runs_key UNIQUE (cluster, submit_s, job_id)
);
CREATE INDEX ix_runs_tag ON runs (tag);
CREATE INDEX ix_runs_decision_id ON runs (decision_id);
CREATE INDEX ix_runs_user_name ON runs ("user", name);
CREATE INDEX ix_runs_line ON runs (line);
CREATE INDEX ix_runs_script ON runs (script);
CREATE TABLE fits (
	level VARCHAR(16) COLLATE "C" NOT NULL,
	key VARCHAR(560) COLLATE "C" NOT NULL,
	label TEXT NOT NULL,
	verdict VARCHAR(32) COLLATE "C" NOT NULL,
	model VARCHAR(255) COLLATE "C" NOT NULL,
	fitted_s DOUBLE PRECISION NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (level, key)
);
CREATE TABLE records (
	level VARCHAR(16) COLLATE "C" NOT NULL,
	key VARCHAR(560) COLLATE "C" NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (level, key)
);
CREATE TABLE standings (
	level VARCHAR(16) COLLATE "C" NOT NULL,
	key VARCHAR(560) COLLATE "C" NOT NULL,
	label TEXT NOT NULL,
	"off" BOOLEAN NOT NULL,
	ratio DOUBLE PRECISION NOT NULL,
	runs BIGINT NOT NULL,
	low DOUBLE PRECISION NOT NULL,
	high DOUBLE PRECISION NOT NULL,
	since_s DOUBLE PRECISION NOT NULL,
	judged_s DOUBLE PRECISION NOT NULL,
	PRIMARY KEY (level, key)
);
CREATE TABLE probes (
	resource VARCHAR(16) COLLATE "C" NOT NULL,
	source VARCHAR(255) COLLATE "C" NOT NULL,
	target VARCHAR(255) COLLATE "C" NOT NULL,
	at_s DOUBLE PRECISION NOT NULL,
	value DOUBLE PRECISION,
	size_bytes BIGINT,
	took_s DOUBLE PRECISION NOT NULL,
	error TEXT NOT NULL,
	PRIMARY KEY (resource, source, target, at_s)
);
CREATE INDEX ix_probes_at_s ON probes (at_s);
CREATE TABLE profiles (
	cluster VARCHAR(64) COLLATE "C" NOT NULL,
	node VARCHAR(255) COLLATE "C" NOT NULL,
	at_s DOUBLE PRECISION NOT NULL,
	node_type VARCHAR(255) COLLATE "C" NOT NULL,
	job_id BIGINT,
	cpus BIGINT,
	cpu_events_per_s DOUBLE PRECISION,
	cpu_all_events_per_s DOUBLE PRECISION,
	mem_bandwidth_bytes_per_s DOUBLE PRECISION,
	mem_latency_s DOUBLE PRECISION,
	disk_read_bytes_per_s DOUBLE PRECISION,
	disk_write_bytes_per_s DOUBLE PRECISION,
	disk_latency_s DOUBLE PRECISION,
	net_bandwidth_bytes_per_s DOUBLE PRECISION,
	net_latency_s DOUBLE PRECISION,
	error TEXT NOT NULL,
	PRIMARY KEY (cluster, node, at_s)
);
CREATE TABLE contributions (
	cluster VARCHAR(64) COLLATE "C" NOT NULL,
	submit_s BIGINT NOT NULL,
	job_id BIGINT NOT NULL,
	digest VARCHAR(32) COLLATE "C" NOT NULL,
	tag VARCHAR(255) COLLATE "C" NOT NULL,
	script VARCHAR(64) COLLATE "C" NOT NULL,
	line VARCHAR(64) COLLATE "C" NOT NULL,
	basis VARCHAR(32) COLLATE "C" NOT NULL,
	node_type VARCHAR(255) COLLATE "C" NOT NULL,
	nodes BIGINT NOT NULL,
	tasks_node DOUBLE PRECISION NOT NULL,
	time_s DOUBLE PRECISION NOT NULL,
	figures TEXT NOT NULL,
	PRIMARY KEY (cluster, submit_s, job_id)
);
CREATE TABLE sums (
	digest VARCHAR(32) COLLATE "C" NOT NULL,
	level VARCHAR(16) COLLATE "C" NOT NULL,
	key VARCHAR(560) COLLATE "C" NOT NULL,
	node_type VARCHAR(255) COLLATE "C" NOT NULL,
	form VARCHAR(32) COLLATE "C" NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (digest)
);
CREATE INDEX ix_sums_key ON sums (level, key);
CREATE TABLE watermarks (
	source VARCHAR(255) COLLATE "C" NOT NULL,
	epoch_s BIGINT NOT NULL,
	PRIMARY KEY (source)
);
CREATE TABLE rejects (
	digest VARCHAR(32) COLLATE "C" NOT NULL,
	source TEXT NOT NULL,
	reason TEXT NOT NULL,
	text TEXT NOT NULL,
	seen_s BIGINT NOT NULL,
	PRIMARY KEY (digest)
);
CREATE TABLE counters (
	name VARCHAR(32) COLLATE "C" NOT NULL,
	value BIGINT NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE steps (
	run_id BIGINT NOT NULL,
	position INTEGER NOT NULL,
	step VARCHAR(255) COLLATE "C" NOT NULL,
	name TEXT NOT NULL,
	state VARCHAR(16) COLLATE "C" NOT NULL,
	nodes BIGINT NOT NULL,
	tasks BIGINT,
	cpus BIGINT NOT NULL,
	start_s BIGINT,
	end_s BIGINT,
	elapsed_s DOUBLE PRECISION NOT NULL,
	cpu_s DOUBLE PRECISION,
	disk_read_bytes BIGINT,
	disk_write_bytes BIGINT,
	mem_bytes BIGINT,
	user_cpu_s DOUBLE PRECISION,
	system_cpu_s DOUBLE PRECISION,
	lustre_read_bytes BIGINT,
	lustre_write_bytes BIGINT,
	net_in_bytes BIGINT,
	net_out_bytes BIGINT,
	energy_j BIGINT,
	gpu_percent DOUBLE PRECISION,
	gpu_mem_bytes BIGINT,
	PRIMARY KEY (run_id, position),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE TABLE decisions (
	decision_id VARCHAR(32) COLLATE "C" NOT NULL,
	cluster VARCHAR(64) COLLATE "C" NOT NULL,
	at_s DOUBLE PRECISION NOT NULL,
	mode VARCHAR(32) COLLATE "C" NOT NULL,
	via VARCHAR(32) COLLATE "C" NOT NULL,
	action VARCHAR(32) COLLATE "C" NOT NULL,
	reason VARCHAR(255) COLLATE "C" NOT NULL,
	uid BIGINT,
	"user" VARCHAR(255) COLLATE "C" NOT NULL,
	name VARCHAR(255) COLLATE "C" NOT NULL,
	work_dir TEXT NOT NULL,
	account TEXT NOT NULL,
	partition TEXT NOT NULL,
	qos TEXT NOT NULL,
	tag VARCHAR(255) COLLATE "C" NOT NULL,
	script VARCHAR(64) COLLATE "C" NOT NULL,
	line VARCHAR(64) COLLATE "C" NOT NULL,
	key_level VARCHAR(16) COLLATE "C" NOT NULL,
	key VARCHAR(560) COLLATE "C" NOT NULL,
	label TEXT NOT NULL,
	verdict VARCHAR(32) COLLATE "C" NOT NULL,
	min_nodes BIGINT,
	max_nodes BIGINT,
	requested_nodes BIGINT,
	limit_s BIGINT,
	deadline_s DOUBLE PRECISION,
	nodes BIGINT,
	applied BOOLEAN NOT NULL,
	predicted_s DOUBLE PRECISION,
	low_s DOUBLE PRECISION,
	high_s DOUBLE PRECISION,
	request_predicted_s DOUBLE PRECISION,
	wait_s DOUBLE PRECISION,
	message TEXT NOT NULL,
	given_limit_s BIGINT,
	given_min_s BIGINT,
	request_low_s DOUBLE PRECISION,
	request_high_s DOUBLE PRECISION,
	request_wait_s DOUBLE PRECISION,
	confidence DOUBLE PRECISION,
	unit VARCHAR(16) COLLATE "C" DEFAULT 'nodes' NOT NULL,
	given_mem_mib BIGINT,
	asked_mem_mib BIGINT,
	run_id BIGINT,
	PRIMARY KEY (decision_id),
	UNIQUE (run_id),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE SET NULL
);
CREATE INDEX ix_decisions_user ON decisions ("user", at_s);
CREATE INDEX ix_decisions_at_s ON decisions (at_s);
CREATE INDEX ix_decisions_key ON decisions (key, at_s);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO counters VALUES ('runs', 1);
INSERT INTO counters VALUES ('fits', 0);
INSERT INTO counters VALUES ('standings', 0);
INSERT INTO counters VALUES ('sums', 0);
INSERT INTO alembic_version VALUES ('0013');
