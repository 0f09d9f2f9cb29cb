#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/transport/link/attach_failure.h"
#include "launcher/transport/openssh_transport.h"
#include "launcher/transport/ssh/transport.h"
#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

NodeAddress a_node() {
  NodeAddress node;
  node.id = NodeId{"n1"};
  node.host = "10.0.0.1";
  return node;
}

LinkFailure attach_said(int status, const std::string& errors) {
  return attach_failure(a_node(), {status, ""}, true, "", errors);
}

LinkFailure ssh_said(const std::string& errors) {
  return openssh_failure(a_node(), {255, ""}, "", errors);
}

}  // namespace

// Texts of dash, bash, coreutils and glibc on Debian 12.
TEST_CASE("an agent that does not start is explained by what the shell said") {
  CHECK(attach_said(126, "sh: 1: exec: muster: Exec format error").kind ==
        LinkFailureKind::wrong_build);
  CHECK(attach_said(2, "muster-b1: 2: Syntax error: \"(\" unexpected").kind ==
        LinkFailureKind::wrong_build);
  CHECK(attach_said(1, "libc.so.6: version `GLIBC_2.38' not found (required by muster)").kind ==
        LinkFailureKind::wrong_build);
  CHECK(attach_said(127, "sh: 1: exec: muster: not found").kind == LinkFailureKind::shell);
  CHECK(attach_said(126, "sh: 1: exec: muster: Permission denied").kind == LinkFailureKind::shell);
  const LinkFailure failure = attach_said(126, "exec: /x/muster: Permission denied\n");
  CHECK_THAT(failure.message, ContainsSubstring("n1 (10.0.0.1)"));
  CHECK_THAT(failure.message, ContainsSubstring("check the owner"));
}

TEST_CASE("a connection that breaks while the agent starts may heal") {
  const auto failure = attach_failure(a_node(), {std::nullopt, "reset by peer"}, true, "", "");
  CHECK(failure.kind == LinkFailureKind::lost);
  CHECK_THAT(failure.message, ContainsSubstring("reset by peer"));
}

TEST_CASE("a failed copy is a full or closed disk") {
  const auto said = [](const std::string& errors) {
    return push_failure(a_node(), {1, ""}, errors).kind;
  };
  CHECK(said("cat: write error: No space left on device") == LinkFailureKind::disk_full);
  CHECK(said("mkdir: cannot create directory '/x': Permission denied") ==
        LinkFailureKind::disk_full);
  CHECK(said("cat: write error: Disk quota exceeded") == LinkFailureKind::disk_full);
  CHECK(said("sh: something else") == LinkFailureKind::shell);
}

TEST_CASE("a binary for another machine is recognised before it is sent") {
  std::string arm =
      "\x7f"
      "ELF";
  arm.resize(64);
  arm[18] = static_cast<char>(183);
  CHECK(machine_mismatch(arm, "Linux aarch64").empty());
  CHECK_THAT(machine_mismatch(arm, "Linux x86_64"),
             ContainsSubstring("the node is Linux x86_64, this muster is for Linux aarch64"));
  CHECK(machine_mismatch("#!/bin/sh", "Linux x86_64").empty());
}

// Texts of OpenSSH 9.2.
TEST_CASE("what ssh says becomes a kind of failure") {
  CHECK(ssh_said("ssh: Could not resolve hostname n1: Name or service not known").kind ==
        LinkFailureKind::unknown_host);
  CHECK(ssh_said("ssh: connect to host n1 port 22: Connection refused").kind ==
        LinkFailureKind::unreachable);
  CHECK(ssh_said("ssh: connect to host 10.0.0.1 port 22: Connection refused").is_denied);
  CHECK_FALSE(ssh_said("ssh: connect to host gate port 22: Connection refused").is_denied);
  CHECK_FALSE(ssh_said("ssh: connect to host 10.0.0.1 port 22: No route to host").is_denied);
  CHECK(ssh_said("ssh: connect to host n1 port 22: Connection timed out").kind ==
        LinkFailureKind::unreachable);
  CHECK(ssh_said("u@n1: Permission denied (publickey).").kind == LinkFailureKind::refused_key);
  CHECK(ssh_said("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n"
                 "Host key verification failed.")
            .kind == LinkFailureKind::changed_host_key);
  CHECK(openssh_failure(a_node(), {std::nullopt, "cannot start ssh"}, "", "").kind ==
        LinkFailureKind::shell);
}

TEST_CASE("only connections dropped before login are tried again") {
  const RemoteExit ssh_failed{255, ""};
  CHECK(openssh_was_dropped(ssh_failed,
                            "kex_exchange_identification: Connection closed by remote host"));
  CHECK(openssh_was_dropped(ssh_failed, "Connection reset by 10.0.0.1 port 22"));
  CHECK_FALSE(openssh_was_dropped(ssh_failed, "u@n1: Permission denied (publickey)."));
  CHECK_FALSE(openssh_was_dropped({1, ""}, "Connection closed by"));
}

TEST_CASE("messages quote one clean line") {
  CHECK(last_line("first\nsecond\x1b[31m\r\n\n") == "second[31m");
  CHECK(last_line("").empty());
  Tail tail(4);
  tail.add("abc");
  tail.add("def");
  CHECK(tail.text() == "cdef");
}

TEST_CASE("a host without open files left for a connection does not blame the node") {
  boost::asio::io_context io;
  const boost::asio::steady_timer first_of_io(io);  // which opens descriptors of its own
  ToNodes<SshTransport> transport(io, {}, std::make_shared<PushGate>(io), nullptr);
  NodeAddress node = a_node();
  node.host = "127.0.0.1";
  AgentLaunch launch;
  launch.connect.retries = 0;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = ::dup(STDERR_FILENO);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ::close(next);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto result = connect_one(io, transport, node, launch);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_THAT(message_of(result), ContainsSubstring("open files, too few") &&
                                     ContainsSubstring("raise the hard limit"));
}

}  // namespace muster
