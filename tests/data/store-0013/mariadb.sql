CREATE TABLE runs (
	id BIGINT NOT NULL,
	digest VARCHAR(32) NOT NULL,
	cluster VARCHAR(64) NOT NULL,
	job_id BIGINT NOT NULL,
	submit_s BIGINT NOT NULL,
	state VARCHAR(16) NOT NULL,
	user VARCHAR(255) NOT NULL,
	name VARCHAR(255) NOT NULL,
	uid BIGINT,
	account LONGTEXT NOT NULL,
	`partition` LONGTEXT NOT NULL,
	qos LONGTEXT NOT NULL,
	array_job_id BIGINT,
	array_task_id BIGINT,
	het_job_id BIGINT,
	het_offset BIGINT,
	cancelled_by VARCHAR(255) NOT NULL,
	exit_code BIGINT,
	exit_signal BIGINT,
	eligible_s BIGINT,
	start_s BIGINT,
	end_s BIGINT,
	elapsed_s DOUBLE NOT NULL,
	limit_s BIGINT,
	nodes BIGINT NOT NULL,
	req_nodes BIGINT,
	cpus BIGINT NOT NULL,
	tasks BIGINT,
	gpus BIGINT,
	node_list LONGTEXT NOT NULL,
	constraints LONGTEXT NOT NULL,
	reservation LONGTEXT NOT NULL,
	req_mem_bytes BIGINT,
	cpu_s DOUBLE,
	disk_read_bytes BIGINT,
	disk_write_bytes BIGINT,
	mem_bytes BIGINT,
	submit_line LONGTEXT NOT NULL,
	work_dir LONGTEXT NOT NULL,
	comment LONGTEXT NOT NULL,
	admin_comment LONGTEXT NOT NULL,
	tag VARCHAR(255) NOT NULL,
	script VARCHAR(64) NOT NULL,
	line VARCHAR(64) NOT NULL,
	decision_id VARCHAR(32) NOT NULL,
	gpu_percent DOUBLE,
	gpu_mem_bytes BIGINT,
	gpu_types VARCHAR(255) NOT NULL DEFAULT '',
	req_cpus BIGINT,
	req_gpus BIGINT,
	req_gpu_types VARCHAR(255) NOT NULL DEFAULT '',
	PRIMARY KEY (id),
	CONSTRAINT uq_runs_key UNIQUE (cluster, submit_s, job_id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE INDEX ix_runs_tag ON runs (tag);
CREATE INDEX ix_runs_decision_id ON runs (decision_id);
CREATE INDEX ix_runs_user_name ON runs (user, name);
CREATE INDEX ix_runs_line ON runs (line);
CREATE INDEX ix_runs_script ON runs (script);
CREATE TABLE fits (
	level VARCHAR(16) NOT NULL,
	`key` VARCHAR(560) NOT NULL,
	label LONGTEXT NOT NULL,
	verdict VARCHAR(32) NOT NULL,
	model VARCHAR(255) NOT NULL,
	fitted_s DOUBLE NOT NULL,
	payload LONGTEXT NOT NULL,
	PRIMARY KEY (level, `key`)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE records (
	level VARCHAR(16) NOT NULL,
	`key` VARCHAR(560) NOT NULL,
	payload LONGTEXT NOT NULL,
	PRIMARY KEY (level, `key`)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE standings (
	level VARCHAR(16) NOT NULL,
	`key` VARCHAR(560) NOT NULL,
	label LONGTEXT NOT NULL,
	off BOOL NOT NULL,
	ratio DOUBLE NOT NULL,
	runs BIGINT NOT NULL,
	low DOUBLE NOT NULL,
	high DOUBLE NOT NULL,
	since_s DOUBLE NOT NULL,
	judged_s DOUBLE NOT NULL,
	PRIMARY KEY (level, `key`)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE probes (
	resource VARCHAR(16) NOT NULL,
	source VARCHAR(255) NOT NULL,
	target VARCHAR(255) NOT NULL,
	at_s DOUBLE NOT NULL,
	value DOUBLE,
	size_bytes BIGINT,
	took_s DOUBLE NOT NULL,
	error LONGTEXT NOT NULL,
	PRIMARY KEY (resource, source, target, at_s)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE INDEX ix_probes_at_s ON probes (at_s);
CREATE TABLE profiles (
	cluster VARCHAR(64) NOT NULL,
	node VARCHAR(255) NOT NULL,
	at_s DOUBLE NOT NULL,
	node_type VARCHAR(255) NOT NULL,
	job_id BIGINT,
	cpus BIGINT,
	cpu_events_per_s DOUBLE,
	cpu_all_events_per_s DOUBLE,
	mem_bandwidth_bytes_per_s DOUBLE,
	mem_latency_s DOUBLE,
	disk_read_bytes_per_s DOUBLE,
	disk_write_bytes_per_s DOUBLE,
	disk_latency_s DOUBLE,
	net_bandwidth_bytes_per_s DOUBLE,
	net_latency_s DOUBLE,
	error LONGTEXT NOT NULL,
	PRIMARY KEY (cluster, node, at_s)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE contributions (
	cluster VARCHAR(64) NOT NULL,
	submit_s BIGINT NOT NULL,
	job_id BIGINT NOT NULL,
	digest VARCHAR(32) NOT NULL,
	tag VARCHAR(255) NOT NULL,
	script VARCHAR(64) NOT NULL,
	line VARCHAR(64) NOT NULL,
	basis VARCHAR(32) NOT NULL,
	node_type VARCHAR(255) NOT NULL,
	nodes BIGINT NOT NULL,
	tasks_node DOUBLE NOT NULL,
	time_s DOUBLE NOT NULL,
	figures LONGTEXT NOT NULL,
	PRIMARY KEY (cluster, submit_s, job_id)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE sums (
	digest VARCHAR(32) NOT NULL,
	level VARCHAR(16) NOT NULL,
	`key` VARCHAR(560) NOT NULL,
	node_type VARCHAR(255) NOT NULL,
	form VARCHAR(32) NOT NULL,
	payload LONGTEXT NOT NULL,
	PRIMARY KEY (digest)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE INDEX ix_sums_key ON sums (level, `key`);
CREATE TABLE watermarks (
	source VARCHAR(255) NOT NULL,
	epoch_s BIGINT NOT NULL,
	PRIMARY KEY (source)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE rejects (
	digest VARCHAR(32) NOT NULL,
	source LONGTEXT NOT NULL,
	reason LONGTEXT NOT NULL,
	text LONGTEXT NOT NULL,
	seen_s BIGINT NOT NULL,
	PRIMARY KEY (digest)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE counters (
	name VARCHAR(32) NOT NULL,
	value BIGINT NOT NULL,
	PRIMARY KEY (name)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE steps (
	run_id BIGINT NOT NULL,
	`position` INTEGER NOT NULL,
	step VARCHAR(255) NOT NULL,
	name LONGTEXT NOT NULL,
	state VARCHAR(16) NOT NULL,
	nodes BIGINT NOT NULL,
	tasks BIGINT,
	cpus BIGINT NOT NULL,
	start_s BIGINT,
	end_s BIGINT,
	elapsed_s DOUBLE NOT NULL,
	cpu_s DOUBLE,
	disk_read_bytes BIGINT,
	disk_write_bytes BIGINT,
	mem_bytes BIGINT,
	user_cpu_s DOUBLE,
	system_cpu_s DOUBLE,
	lustre_read_bytes BIGINT,
	lustre_write_bytes BIGINT,
	net_in_bytes BIGINT,
	net_out_bytes BIGINT,
	energy_j BIGINT,
	gpu_percent DOUBLE,
	gpu_mem_bytes BIGINT,
	PRIMARY KEY (run_id, `position`),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE decisions (
	decision_id VARCHAR(32) NOT NULL,
	cluster VARCHAR(64) NOT NULL,
	at_s DOUBLE NOT NULL,
	mode VARCHAR(32) NOT NULL,
	via VARCHAR(32) NOT NULL,
	action VARCHAR(32) NOT NULL,
	reason VARCHAR(255) NOT NULL,
	uid BIGINT,
	user VARCHAR(255) NOT NULL,
	name VARCHAR(255) NOT NULL,
	work_dir LONGTEXT NOT NULL,
	account LONGTEXT NOT NULL,
	`partition` LONGTEXT NOT NULL,
	qos LONGTEXT NOT NULL,
	tag VARCHAR(255) NOT NULL,
	script VARCHAR(64) NOT NULL,
	line VARCHAR(64) NOT NULL,
	key_level VARCHAR(16) NOT NULL,
	`key` VARCHAR(560) NOT NULL,
	label LONGTEXT NOT NULL,
	verdict VARCHAR(32) NOT NULL,
	min_nodes BIGINT,
	max_nodes BIGINT,
	requested_nodes BIGINT,
	limit_s BIGINT,
	deadline_s DOUBLE,
	nodes BIGINT,
	applied BOOL NOT NULL,
	predicted_s DOUBLE,
	low_s DOUBLE,
	high_s DOUBLE,
	request_predicted_s DOUBLE,
	wait_s DOUBLE,
	message LONGTEXT NOT NULL,
	given_limit_s BIGINT,
	given_min_s BIGINT,
	request_low_s DOUBLE,
	request_high_s DOUBLE,
	request_wait_s DOUBLE,
	confidence DOUBLE,
	unit VARCHAR(16) NOT NULL DEFAULT 'nodes',
	given_mem_mib BIGINT,
	asked_mem_mib BIGINT,
	run_id BIGINT,
	PRIMARY KEY (decision_id),
	UNIQUE (run_id),
	FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE SET NULL
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE INDEX ix_decisions_user ON decisions (user, at_s);
CREATE INDEX ix_decisions_at_s ON decisions (at_s);
CREATE INDEX ix_decisions_key ON decisions (`key`, at_s);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO counters VALUES ('runs', 1);
INSERT INTO counters VALUES ('fits', 0);
INSERT INTO counters VALUES ('standings', 0);
INSERT INTO counters VALUES ('sums', 0);
INSERT INTO alembic_version VALUES ('0013');
