#include "templates/cluster/file.h"

#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

ClusterFile read_cluster(const std::string& text) {
  return read_cluster_file("cluster.yml", text, in_project());
}

TEST_CASE("a cluster file becomes compute targets") {
  const ClusterFile file = read_cluster(R"(default: lab
compute:
  lab:
    transport: openssh
    user: ml
    port: 2222
    identity_file: ~/.ssh/lab
    nodes:
      - n[01-02]
      - {name: m3, host: 10.0.0.3, port: 22, user: root, address: 192.168.0.3}
    shared_root: /mnt/shared
    remote_home: ~/muster
    lease: 2m
    unreachable: 45
    notice_file: /run/leave
    ports: 21000-21999
    connect:
      handshakes: 16
      unauthenticated_per_host: 4
      retries: 2
      resolve_timeout: 5s
      tcp_timeout: 3
      login_timeout: 1m
      silence: 9s
      unknown_hosts: refuse
  bench:
    transport: local
    nodes: a,b
    connect:
      fan_out: {above: 3, radix: 2, patience: 2s, set_aside: 1m, silence: 4s}
)");
  CHECK(printed(file.findings) == "");
  CHECK(file.default_target == "lab");
  REQUIRE(file.targets.size() == 2);
  const ComputeTarget& lab = file.targets[0];
  REQUIRE(lab.nodes.size() == 3);
  CHECK(lab.nodes[1].id.value == "n02");
  CHECK(lab.nodes[1].host == "n02");
  CHECK(lab.nodes[1].port == 2222);
  CHECK(lab.nodes[1].user == "ml");
  CHECK(lab.nodes[1].identity_file == "~/.ssh/lab");
  CHECK(lab.nodes[1].transport == TransportKind::openssh);
  CHECK(lab.nodes[2].id.value == "m3");
  CHECK(lab.nodes[2].host == "10.0.0.3");
  CHECK(lab.nodes[2].port == 22);
  CHECK(lab.nodes[2].user == "root");
  CHECK(lab.nodes[2].job_address == "192.168.0.3");
  CHECK(lab.shared_root == "/mnt/shared");
  CHECK(lab.remote_home == "~/muster");
  CHECK(lab.lease == Milliseconds{120000});
  CHECK(lab.unreachable == Milliseconds{45000});
  CHECK(lab.notice_file == "/run/leave");
  CHECK(lab.port_min == 21000);
  CHECK(lab.port_max == 21999);
  CHECK(lab.connect.handshakes == 16);
  CHECK(lab.connect.unauthenticated_per_host == 4);
  CHECK(lab.connect.retries == 2);
  CHECK(lab.connect.resolve_timeout == Milliseconds{5000});
  CHECK(lab.connect.tcp_timeout == Milliseconds{3000});
  CHECK(lab.connect.login_timeout == Milliseconds{60000});
  CHECK(lab.connect.silence == Milliseconds{9000});
  CHECK(lab.connect.refuses_unknown_hosts);
  CHECK(lab.connect.fan_out_above == ConnectSettings{}.fan_out_above);
  const ConnectSettings& bench = file.targets[1].connect;
  CHECK_FALSE(bench.refuses_unknown_hosts);
  CHECK(bench.fan_out_above == 3);
  CHECK(bench.fan_out_radix == 2);
  CHECK(bench.fan_out_patience == Milliseconds{2000});
  CHECK(bench.fan_out_set_aside == Milliseconds{60000});
  CHECK(bench.fan_out_silence == Milliseconds{4000});
  CHECK(file.targets[1].nodes[0].transport == TransportKind::local);
}

TEST_CASE("mistakes in a cluster file are errors, all of them at once") {
  const std::string out = printed(read_cluster(R"(default: lap
compute:
  lab:
    transprot: ssh
    nodes: [a, a]
    ports: 29999-20000
    connect: {handshakes: 0, tcp_timeout: 0, unknown_hosts: accept, fan_out: {radix: 2}}
  local:
    nodes: x
  empty: {}
  odd:
    nodes: -oProxyCommand=x
  tree:
    transport: local
    nodes: x
    connect: {fan_out: {radix: 1, abvoe: 3}}
  hasty: {nodes: x, lease: 2s}
  lasting: {nodes: x, lease: 61m}
)")
                                      .findings);
  CHECK_THAT(out, ContainsSubstring("cluster.yml:1:10: error: default: there is no target 'lap'; "
                                    "did you mean 'lab'?"));
  CHECK_THAT(out, ContainsSubstring("unknown key 'transprot' in 'compute.lab'; "
                                    "did you mean 'transport'?"));
  CHECK_THAT(out, ContainsSubstring("the node 'a' is listed twice"));
  CHECK_THAT(out, ContainsSubstring("compute.lab.ports: expected two ports"));
  CHECK_THAT(out, ContainsSubstring("compute.lab.connect.handshakes: expected 1 or more, got 0"));
  CHECK_THAT(out, ContainsSubstring("compute.lab.connect.tcp_timeout: expected 1 second or more"));
  CHECK_THAT(out, ContainsSubstring("compute.hasty.lease: expected a duration from 3s to 1h"));
  CHECK_THAT(out, ContainsSubstring("compute.lasting.lease: expected a duration from 3s to 1h"));
  CHECK_THAT(out, ContainsSubstring("compute.lab.connect.unknown_hosts: "));
  CHECK_THAT(out, ContainsSubstring("compute.lab.connect.fan_out: nodes are reached over ssh, and "
                                    "each has a link of its own"));
  CHECK_THAT(out, ContainsSubstring("compute.tree.connect.fan_out.radix: expected 2 or more"));
  CHECK_THAT(out, ContainsSubstring("unknown key 'abvoe' in 'compute.tree.connect.fan_out'; "
                                    "did you mean 'above'?"));
  CHECK_THAT(out, ContainsSubstring("compute.local: the name is built in"));
  CHECK_THAT(out, ContainsSubstring("'compute.empty.nodes' is required"));
  CHECK_THAT(out, ContainsSubstring("'-oProxyCommand=x' is not a host name"));
}

TEST_CASE("a cluster file is told from a job that names its target in the old way") {
  const auto kind_of = [](const std::string& text) { return read_job(text).kind; };
  CHECK(kind_of("compute: {lab: {nodes: a}}") == FileKind::cluster);
  CHECK(kind_of("default: local-cluster") == FileKind::cluster);
  CHECK(kind_of("compute: {target: lab, instance_count: 2}") == FileKind::command);
  CHECK(kind_of("compute: lab") == FileKind::command);
  CHECK(kind_of("command: x\ncompute: {lab: {nodes: a}}") == FileKind::command);
}

}  // namespace
}  // namespace muster
