-- A store of version 2 as muster wrote it, by sqlite3's .dump with the version added: one job that a
-- rule of its own stopped, one that was running and has a rule. Names and addresses changed.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE record (
  seq INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  job TEXT NOT NULL,
  node TEXT NOT NULL,
  kind TEXT NOT NULL,
  payload TEXT NOT NULL);
INSERT INTO record VALUES(1,1795264813562,'failed','','job_submitted','{"job":"failed","spec":{"code":"","command":"echo \"ValueError: no tokens\" >&2\nexit 42\n","compute":"local","description":"","display_name":"failed","distribution":{"parameter_server_count":0,"process_per_gpu":false,"processes_per_node":1,"type":"none","worker_count":0},"docker_args":"","environment":{"build_path":"","conda_file":"","dockerfile_path":"","image":"","reference":""},"environment_variables":{},"experiment_name":"controller","git_url":"","inputs":{},"instance_count":1,"instance_types":[],"muster":{"checkpoint_path":"","class_actions":{},"env_export":[],"exclude_nodes":[],"health_only":[],"health_skip":[],"health_start":"quick","include_nodes":[],"labels":[],"mpi_launcher":"mpirun","no_progress_cycles":3,"nodes_max":1,"nodes_min":1,"nodes_spares":0,"nodes_wait":600000,"other":{},"preemptible":false,"priority":0,"reschedule":{"attempts":10,"interval":86400,"unlimited":false},"restart":{"attempts":1,"delay":1000,"delay_function":"exponential","interval":3600,"max_delay":120000},"resume_argument":"","resume_from":"latest","resume_path":"","rules":[{"action":"retry","enforce":true,"exit_code":3,"failure_class":"infra","stderr_regex":""},{"action":"stop","enforce":true,"exit_code":42,"failure_class":"infra","stderr_regex":"no tokens"},{"action":"exclude_node","enforce":false,"signal":9,"stderr_regex":""},{"enforce":true,"failure_class":"hw","stderr_regex":"","xid":79}],"stop":{"grace":30000,"grace_max":300000,"signal":"SIGTERM"}},"name":"failed","outputs":{},"properties":{},"recorded":{},"services":{},"shm_size":"2g","tags":{}},"target":{"lease":60000,"name":"local","nodes":[{"host":"","id":"local","identity_file":"","job_address":"","port":22,"transport":"local","user":""}],"port_max":29999,"port_min":20000,"remote_home":"","shared_root":"","unreachable":30000},"user":"ml"}');
INSERT INTO record VALUES(2,1795264813562,'failed','','attempt_placed','{"attempt":0,"job":"failed","nodes":["local"],"why":"first free nodes of local"}');
INSERT INTO record VALUES(3,1795264813568,'','local','link_up','{"agent_id":"3f0c1b7e-25770539794-26337","boot_id":"3f0c1b7e-5a42-4d0e-9c58-1f2e3d4c5b6a","host_name":"node","job_address":"192.0.2.2","node":"local"}');
INSERT INTO record VALUES(4,1795264813570,'failed','local','node_checked','{"attempt":0,"failures":[],"job":"failed","node":"local"}');
INSERT INTO record VALUES(5,1795264813570,'failed','','staging_begun','{"attempt":0,"job":"failed"}');
INSERT INTO record VALUES(6,1795264813572,'failed','local','node_staged','{"attempt":0,"error":"","job":"failed","node":"local"}');
INSERT INTO record VALUES(7,1795264813572,'failed','','launch_begun','{"attempt":0,"job":"failed","went_back":false,"why":"no committed checkpoint"}');
INSERT INTO record VALUES(8,1795264813576,'failed','local','node_started','{"attempt":0,"directory":"","error":"","job":"failed","node":"local"}');
INSERT INTO record VALUES(9,1795264813576,'failed','local','rank_exited','{"asked_to_stop":false,"at_ms":1795264813576,"attempt":0,"job":"failed","last_lines":["ValueError: no tokens"],"node":"local","rank":0,"status":{"code":42,"signal":0}}');
INSERT INTO record VALUES(10,1795264813576,'failed','','stop_begun','{"attempt":0,"grace":30000,"job":"failed","reason":"rank_failed","sentence":"rank 0 on local exited with code 42"}');
INSERT INTO record VALUES(11,1795264813589,'failed','local','node_clean','{"attempt":0,"job":"failed","node":"local","unkillable":[]}');
INSERT INTO record VALUES(12,1795264813589,'failed','','collection_begun','{"attempt":0,"job":"failed"}');
INSERT INTO record VALUES(13,1795264813590,'failed','local','collection_seen','{"attempt":0,"bytes":0,"job":"failed","node":"local"}');
INSERT INTO record VALUES(14,1795264813593,'failed','local','outputs_collected','{"attempt":0,"error":"","job":"failed","node":"local"}');
INSERT INTO record VALUES(15,1795264813593,'failed','','attempt_ended','{"attempt":0,"cause":{"failure_class":"infra","first_node":"local","first_rank":0,"last_lines":["ValueError: no tokens"],"left_behind":"","made_progress":false,"reason":"rank_failed","sentence":"rank 0 on local exited with code 42","status":{"code":42,"signal":0},"succeeded":false,"unproven":[]},"job":"failed"}');
INSERT INTO record VALUES(16,1795264813593,'failed','','job_ended','{"exit_code":42,"job":"failed","reason":"rank 0 on local exited with code 42 (rule 2 (exit_code 42, stderr_regex ''no tokens''), class infra: stop)","state":"Failed"}');
INSERT INTO record VALUES(17,1795264813606,'running','','job_submitted','{"job":"running","spec":{"code":"","command":"sleep 600","compute":"local","description":"","display_name":"running","distribution":{"parameter_server_count":0,"process_per_gpu":false,"processes_per_node":1,"type":"none","worker_count":0},"docker_args":"","environment":{"build_path":"","conda_file":"","dockerfile_path":"","image":"","reference":""},"environment_variables":{},"experiment_name":"controller","git_url":"","inputs":{},"instance_count":1,"instance_types":[],"muster":{"checkpoint_path":"","class_actions":{},"env_export":[],"exclude_nodes":[],"health_only":[],"health_skip":[],"health_start":"quick","include_nodes":[],"labels":[],"mpi_launcher":"mpirun","no_progress_cycles":3,"nodes_max":1,"nodes_min":1,"nodes_spares":0,"nodes_wait":600000,"other":{},"preemptible":false,"priority":0,"reschedule":{"attempts":10,"interval":86400,"unlimited":false},"restart":{"attempts":3,"delay":5000,"delay_function":"exponential","interval":3600,"max_delay":120000},"resume_argument":"","resume_from":"latest","resume_path":"","rules":[{"action":"retry","enforce":true,"exit_code":42,"failure_class":"infra","stderr_regex":""}],"stop":{"grace":30000,"grace_max":300000,"signal":"SIGTERM"}},"name":"running","outputs":{},"properties":{},"recorded":{},"services":{},"shm_size":"2g","tags":{}},"target":{"lease":60000,"name":"local","nodes":[{"host":"","id":"local","identity_file":"","job_address":"","port":22,"transport":"local","user":""}],"port_max":29999,"port_min":20000,"remote_home":"","shared_root":"","unreachable":30000},"user":"ml"}');
INSERT INTO record VALUES(18,1795264813606,'running','','attempt_placed','{"attempt":0,"job":"running","nodes":["local"],"why":"first free nodes of local"}');
INSERT INTO record VALUES(19,1795264813614,'running','local','node_checked','{"attempt":0,"failures":[],"job":"running","node":"local"}');
INSERT INTO record VALUES(20,1795264813614,'running','','staging_begun','{"attempt":0,"job":"running"}');
INSERT INTO record VALUES(21,1795264813615,'running','local','node_staged','{"attempt":0,"error":"","job":"running","node":"local"}');
INSERT INTO record VALUES(22,1795264813615,'running','','launch_begun','{"attempt":0,"job":"running","went_back":false,"why":"no committed checkpoint"}');
INSERT INTO record VALUES(23,1795264813619,'running','local','node_started','{"attempt":0,"directory":"","error":"","job":"running","node":"local"}');
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
INSERT INTO job VALUES('failed',0,'failed','controller','local','ml','Failed','rank 0 on local exited with code 42 (rule 2 (exit_code 42, stderr_regex ''no tokens''), class infra: stop)',1795264813562,1795264813572,1795264813593,42,1,NULL,NULL,'local','{}',0,0);
INSERT INTO job VALUES('running',1,'running','controller','local','ml','Running','',1795264813606,1795264813615,NULL,NULL,1,NULL,NULL,'local','{}',0,0);
CREATE INDEX record_job ON record(job, seq);
CREATE INDEX record_node ON record(node, kind, seq) WHERE job = '';
CREATE INDEX job_newest ON job(submitted_ms DESC);
CREATE INDEX job_live ON job(name) WHERE ended_ms IS NULL OR unclean = 1;
COMMIT;
PRAGMA user_version=2;
