// Files of a site: its cluster file, with the compute targets, and how long muster keeps what it
// made. Same rules and findings as job files.
//
//   default: lab                      # target of jobs that name none
//   compute:
//     lab:
//       transport: ssh                # ssh (default), openssh (the ssh program), local
//       user: ml                      # default: the submitting user
//       port: 22
//       identity_file: ~/.ssh/lab     # default: the agent, then the usual key files
//       nodes:
//         - n[01-16]                  # name and host are the same
//         - {name: m3, host: 10.0.0.3, port: 2222, user: root, address: 192.168.0.3}
//       shared_root: /mnt/shared      # one path on all nodes
//       remote_home: /scratch/muster  # muster's directory on a node; default ~/.muster
//       lease: 20s                    # silence after which an agent kills its ranks; default: 20s
//                                     # where the controller is near (compute.h), else 60s
//       unreachable: 30s              # silence after which a job is stopped, the lease at the most
//       ports: 20000-29999            # for MASTER_PORT
//       health: ND96isr_H100_v5       # what a healthy node is: a shipped profile, or a map over it
//       remedies:                     # commands of the site for nodes whose faults ask for them
//         reset: sudo -n nvidia-smi --gpu-reset -i {gpu}   # on the node, when nothing runs there
//         reboot: sudo -n systemctl reboot                 # on the node
//         reboot_from_here: ipmitool -H {node}-bmc power cycle  # on the controller's host: when
//                                     # the node does not answer, or `reboot` failed
//       connect:                      # limits on reaching the nodes: ConnectSettings has the
//                                     # defaults and their reasons
//         handshakes: 64                  # logins at once
//         unauthenticated_per_host: 8
//         retries: 6                      # of a connection that sshd dropped
//         resolve_timeout: 30s
//         tcp_timeout: 10s
//         login_timeout: 45s
//         silence: 15s                    # unanswered for so long, a connection counts as lost
//         unknown_hosts: record           # or refuse
//         fan_out:                        # `transport: local` only; with more than `above`: a tree
//           above: 1000000
//           radix: 16
//           patience: 5s                  # nobody waits longer for a parent
//           set_aside: 10m                # for so long, who could not reach a node gets no more
//           silence: 8s                   # unanswered for so long, a parent counts as lost
//   datastores:                       # templates/resource/datastore.h
//     blob: stores/blob.yml           # a file beside this one, or the keys of one
//   default_datastore: blob           # of outputs without a path
//   data:                             # what nodes keep of the data that jobs read
//     cache: /local/muster-data         # default: `data` in muster's directory on the node
//     size: 80%                         # of its file system, or 500GB
//     stage_below: 50%                  # of that: larger data are not copied
//     shared: none                      # a directory that all nodes see, instead of `cache`
//   policy:                           # of all jobs that are submitted with this file
//     rules: []                       # after the job's own: settings/setting_table.h
//   containers:
//     allow: ["mcr.microsoft.com/*", "docker.io/*"]   # whole names; default: every image
//     pull: nodes                       # from the registry, or `controller`: it brings them
//   mirrors: {docker.io/: registry.lab:5000/hub/}     # beginnings of whole names
//   environments: {AzureML-acpt-pytorch-2.8: registry.lab:5000/acpt:2.8, ACPT_Nebula: host}
//   unknown_environment: host           # or refuse
//
// A remedy is one line, split into words here once, or a list of words; no shell ever sees it. In
// arguments: {node} {gpu} {device} {serial} {finding}, as scheduler/model/remediation.h says. The
// journal keeps the words and `muster explain` shows them: they are no place for passwords.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/compute.h"
#include "scheduler/model/image_settings.h"
#include "scheduler/model/job_spec.h"
#include "scheduler/model/result.h"
#include "scheduler/model/retention.h"
#include "templates/job/job_file.h"
#include "templates/resource/datastore.h"
#include "templates/yaml/finding.h"
#include "templates/yaml/read_options.h"
#include "templates/yaml/value.h"

namespace muster {

struct ClusterFile {
  std::vector<ComputeTarget> targets;  // in file order
  std::string default_target;          // empty: `local`
  std::vector<RestartRule> rules;      // `policy.rules`
  ImageSettings images;
  std::vector<DatastoreFile> datastores;
  std::string default_datastore;
  DataCacheSettings data;
  std::vector<Finding> findings;
};

ClusterFile read_cluster_file(const std::string& path, std::string_view text,
                              const ReadOptions& options);

// The same of a file that is parsed already; what is wrong goes to the findings of `root`.
ClusterFile read_cluster(const Value& root, const FileView& files = {});

// The files of a site as one: the first that says a thing counts, and what any of them lists as
// allowed.
void add_images(ImageSettings& to, ImageSettings more);

// One line split into the words of a command, as a shell would that knows quotes and backslashes
// and nothing else: "a 'b c' \"d\"" is a, `b c` and d. What a shell would act on is an error.
Result<std::vector<std::string>> command_words(std::string_view line);

// This host, one node named "local", no ssh.
ComputeTarget local_target();
// This host as up to 64 simulated nodes, "local-0" …: for trying things and for tests.
ComputeTarget local_cluster_target();
constexpr int local_cluster_nodes = 64;

// The built-in targets, then those of the file.
std::vector<ComputeTarget> known_targets(const ClusterFile& file);

struct ResolvedTarget {
  const ComputeTarget* target = nullptr;  // into the list given; null after a finding
  std::vector<Finding> findings;
};

// Which target a job runs on. `known` holds every target, the built-in ones included. A job that
// names none gets `default_target`, or `local` when that is empty. Findings: unknown target, too
// few nodes, several nodes on `local`, node names in muster.placement that the target has not.
ResolvedTarget resolve_target(const JobFile& job, const std::vector<ComputeTarget>& known,
                              const std::string& default_target);

// The user's retention.yml: how long muster keeps what it made. Durations, or `never` for what is
// not to be removed:
//
//   journal: 90d   job_folders: never   blobs: 3d   binaries: 3d   run_folders: 30d

struct RetentionFile {
  RetentionLimits keep = usual_retention;
  std::vector<Finding> findings;
};

RetentionFile read_retention_file(const std::string& path, std::string_view text);

}  // namespace muster
