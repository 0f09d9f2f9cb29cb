-- A store of version 6, synthetic: the tables as that version has them, and the records that its
-- scheduler and codec made of a fixed job on two nodes with a rank for each GPU, which runs.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE record (
  seq INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  job TEXT NOT NULL,
  node TEXT NOT NULL,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL);
INSERT INTO record VALUES(1,1795300000000,'running','','job_submitted','{"job":"running","spec":{"code":"","command":"true","compute":"","description":"","display_name":"","distribution":{"parameter_server_count":0,"process_per_gpu":true,"processes_per_node":1,"type":"pytorch","worker_count":0},"docker_args":"","environment":{"build_path":"","conda_file":"","dockerfile_path":"","image":"","reference":""},"environment_variables":{},"experiment_name":"","git_url":"","inputs":{},"instance_count":2,"instance_types":[],"muster":{"checkpoint_path":"","class_actions":{},"env_export":[],"exclude_nodes":[],"hang":{"first_step":1200000,"off":false,"watch":"heartbeat"},"health_only":[],"health_skip":[],"health_start":"quick","include_nodes":[],"labels":[],"mpi_launcher":"mpirun","no_progress_cycles":3,"nodes_max":2,"nodes_min":2,"nodes_spares":0,"nodes_wait":600000,"other":{},"preemptible":false,"priority":0,"reschedule":{"attempts":10,"interval":86400,"unlimited":false},"restart":{"attempts":3,"delay":5000,"delay_function":"exponential","interval":3600,"max_delay":120000},"resume_argument":"","resume_from":"latest","resume_path":"","rules":[],"site_rules":[],"stop":{"grace":30000,"grace_max":300000,"signal":"SIGTERM"}},"name":"running","outputs":{},"properties":{},"recorded":{},"services":{},"shm_size":"","tags":{}},"target":{"connect":{"fan_out_above":128,"fan_out_patience":5000,"fan_out_radix":16,"fan_out_set_aside":600000,"fan_out_silence":8000,"handshakes":64,"login_timeout":45000,"resolve_timeout":30000,"retries":6,"silence":15000,"tcp_timeout":10000,"unauthenticated_per_host":8},"lease":60000,"name":"lab","nodes":[{"host":"","id":"h01","identity_file":"","job_address":"","port":22,"transport":"ssh","user":""},{"host":"","id":"h02","identity_file":"","job_address":"","port":22,"transport":"ssh","user":""},{"host":"","id":"h03","identity_file":"","job_address":"","port":22,"transport":"ssh","user":""}],"notice_file":"","port_max":29999,"port_min":20000,"remote_home":"","shared_root":"","unreachable":30000},"user":"ada"}');
INSERT INTO record VALUES(2,1795300000000,'running','','attempt_placed','{"attempt":0,"job":"running","nodes":["h01","h02"],"spares":[],"why":"first free nodes of lab"}');
INSERT INTO record VALUES(3,1795300000000,'','h01','link_up','{"agent_id":"agent1","boot_id":"boot1","gpus":2,"host_name":"h01","job_address":"10.0.0.1","methods":"","node":"h01","profile":[]}');
INSERT INTO record VALUES(4,1795300000000,'','h02','link_up','{"agent_id":"agent1","boot_id":"boot1","gpus":1,"host_name":"h02","job_address":"10.0.0.2","methods":"","node":"h02","profile":[]}');
INSERT INTO record VALUES(5,1795300000000,'','h03','link_up','{"agent_id":"agent1","boot_id":"boot1","gpus":0,"host_name":"h03","job_address":"10.0.0.3","methods":"","node":"h03","profile":[]}');
INSERT INTO record VALUES(6,1795300000000,'running','h01','node_checked','{"attempt":0,"failures":[],"job":"running","node":"h01"}');
INSERT INTO record VALUES(7,1795300000000,'running','h02','node_checked','{"attempt":0,"failures":[],"job":"running","node":"h02"}');
INSERT INTO record VALUES(8,1795300000000,'running','','staging_begun','{"attempt":0,"job":"running"}');
INSERT INTO record VALUES(9,1795300000000,'running','h01','node_staged','{"attempt":0,"error":"","job":"running","node":"h01"}');
INSERT INTO record VALUES(10,1795300000000,'running','h02','node_staged','{"attempt":0,"error":"","job":"running","node":"h02"}');
INSERT INTO record VALUES(11,1795300000000,'running','','ports_asked','{"attempt":0,"job":"running"}');
INSERT INTO record VALUES(12,1795300000000,'running','h01','ports_reserved','{"attempt":0,"error":"","job":"running","node":"h01","ports":[20000]}');
INSERT INTO record VALUES(13,1795300000000,'running','','launch_begun','{"attempt":0,"job":"running","processes":[2,1],"went_back":false,"why":"no committed checkpoint"}');
INSERT INTO record VALUES(14,1795300000000,'running','h01','node_started','{"attempt":0,"directory":"/jobs/running","error":"","job":"running","node":"h01"}');
INSERT INTO record VALUES(15,1795300000000,'running','h02','node_started','{"attempt":0,"directory":"/jobs/running","error":"","job":"running","node":"h02"}');
CREATE TABLE job (
  name TEXT PRIMARY KEY,
  submit_order INTEGER NOT NULL,
  display_name TEXT NOT NULL,
  experiment TEXT NOT NULL,
  compute TEXT NOT NULL,
  user TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  submitted_ms INTEGER NOT NULL,
  started_ms INTEGER,
  ended_ms INTEGER,
  exit_code INTEGER,
  attempts INTEGER NOT NULL,
  step INTEGER,
  checkpoint_step INTEGER,
  nodes TEXT NOT NULL,
  tags TEXT NOT NULL,
  archived INTEGER NOT NULL DEFAULT 0, unclean INTEGER NOT NULL DEFAULT 0);
INSERT INTO job VALUES('running',0,'running','','lab','ada','Running','',1795300000000,1795300000000,NULL,NULL,1,NULL,NULL,'h01, h02','{}',0,0);
CREATE INDEX record_job ON record(job, seq);
CREATE INDEX record_node ON record(node, kind, seq) WHERE job = '';
CREATE INDEX job_newest ON job(submitted_ms DESC);
CREATE INDEX job_live ON job(name) WHERE ended_ms IS NULL OR unclean = 1;
COMMIT;
PRAGMA user_version=6;
