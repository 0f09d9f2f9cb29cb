// What launchers give `ssh` and `pdsh`: the words of DeepSpeed 0.19 and of MPICH 4.2 as they were
// seen, and hostile ones.
#include "launcher/agent/exec/remote_shell.h"

#include "launcher/agent/attempt/remote_door.h"
#include "launcher/agent/node/run_directory.h"
#include "tests/catch.h"

using namespace muster;

namespace {

using Typed = std::vector<std::string>;

std::string ssh_error(const Typed& words) {
  const auto call = read_ssh_words(words);
  return call ? "" : call.error().message;
}

std::string pdsh_error(const Typed& words) {
  const auto call = read_pdsh_words(words);
  return call ? "" : call.error().message;
}

}  // namespace

TEST_CASE("ssh is asked for one host and a command, as launchers call it") {
  struct Use {
    Typed words;
    std::string host;
    std::string command;
  };
  const std::vector<Use> uses{
      {{"-o", "PasswordAuthentication=no", "n1", "hostname"}, "n1", "hostname"},
      {{"n1", "hostname", "-I"}, "n1", "hostname -I"},
      {{"-x", "n2", "\"/usr/bin/hydra_pmi_proxy\"", "--control-port", "n1:4711"},
       "n2",
       "\"/usr/bin/hydra_pmi_proxy\" --control-port n1:4711"},
      {{"-oStrictHostKeyChecking=no", "-p22", "-qTx", "me@n1", "-l", "me", "true"}, "n1", "true"},
      {{"-p", "-x", "n1", "true"}, "n1", "true"},  // a value may look like an option
      {{"--", "n1", "--", "-rf"}, "n1", "-rf"},
      {{"n1", "echo", "a  b", "$(id)"}, "n1", "echo a  b $(id)"}};
  for (const Use& use : uses) {
    const auto call = read_ssh_words(use.words);
    REQUIRE(call);
    CHECK(call->hosts == Typed{use.host});
    CHECK(call->command == use.command);
    CHECK(call->returns_codes);
    CHECK(command_for(*call, 0, "u") == use.command);
  }
  const auto percent = read_ssh_words({"n1", "date", "+%h%n"});
  CHECK(command_for(*percent, 0, "u") == "date +%h%n");
}

TEST_CASE("ssh without a host or a command, or with an unknown option, says so") {
  for (const Typed& words : std::vector<Typed>{{}, {"n1"}, {"me@", "true"}, {"-x"}, {"-p", "22"}}) {
    CHECK_THAT(ssh_error(words), ContainsSubstring("HOST and a command are needed"));
  }
  CHECK_THAT(ssh_error({"-o"}), ContainsSubstring("-o needs a value"));
  CHECK_THAT(ssh_error({"-Z", "n1", "true"}), ContainsSubstring("-Z is unsupported"));
  CHECK_THAT(ssh_error({"--help"}), ContainsSubstring("is unsupported"));
}

TEST_CASE("pdsh joins DeepSpeed's words by blanks and puts in the place of the host") {
  const Typed words{"-S", "-f", "1024", "-w", "n1,n2", "export A=1; export FOO=\"bar baz\"; ",
                    "cd /code;", "/usr/bin/python3", "-u", "-m", "deepspeed.launcher.launch",
                    "--world_info=B64", "--node_rank=%n", "train.py", "--name", "\"x y\""};
  const auto call = read_pdsh_words(words);
  REQUIRE(call);
  CHECK(call->hosts == Typed{"n1", "n2"});
  CHECK(call->is_labelled);
  CHECK(call->returns_codes);
  CHECK(command_for(*call, 1, "u") ==
        "export A=1; export FOO=\"bar baz\";  cd /code; /usr/bin/python3 -u -m "
        "deepspeed.launcher.launch --world_info=B64 --node_rank=1 train.py --name \"x y\"");
}

TEST_CASE("pdsh replaces %h, %n, %u and %% and nothing else") {
  const auto call = read_pdsh_words({"-Nw", "n1,,n2", "-w", "n3", "%h %n %u %% %%n %x 5%"});
  REQUIRE(call);
  CHECK(call->hosts == Typed{"n1", "n2", "n3"});
  CHECK_FALSE(call->is_labelled);
  CHECK_FALSE(call->returns_codes);
  CHECK(command_for(*call, 2, "me") == "n3 2 me % %n %x 5%");
  const auto hostile = read_pdsh_words({"-w", "$(id),%n", "echo", "%h"});
  CHECK(command_for(*hostile, 1, "u") == "echo %n");  // once, not again in what was put in
}

TEST_CASE("pdsh without hosts or a command, or with what would be ignored, is refused") {
  for (const Typed& words : std::vector<Typed>{{"id"}, {"-w", "n1"}, {"-w", ",,", "id"}}) {
    CHECK_THAT(pdsh_error(words), ContainsSubstring("-w HOSTS and a command are needed"));
  }
  CHECK_THAT(pdsh_error({"-w", "n1,n2", "-x", "n2", "id"}), ContainsSubstring("-x is unsupported"));
  CHECK_THAT(pdsh_error({"-a", "id"}), ContainsSubstring("-a is unsupported"));
}

TEST_CASE("four thousand hosts and a long command are read in no time") {
  std::string list;
  for (int host = 0; host < 4096; ++host) list += "node-" + std::to_string(host) + ",";
  const auto call = read_pdsh_words({"-w", list, std::string(100'000, '%')});
  REQUIRE(call);
  CHECK(call->hosts.size() == 4096);
  CHECK(command_for(*call, 4095, "u").size() == 50'000);
}

TEST_CASE("DeepSpeed's pkill becomes muster's, other commands stay") {
  CHECK(with_own_pkill("pkill -f  PY\\ -u\\ -m\\ deepspeed.launcher.launc") ==
        "muster agent pkill  PY\\ -u\\ -m\\ deepspeed.launcher.launc");
  for (const char* other : {"pkill python", "echo pkill -f x", "pkill -9 -f x"}) {
    CHECK(with_own_pkill(other) == other);
  }
}

TEST_CASE("only the names of the links make a remote shell of muster") {
  CHECK(remote_shell_called("/run/attempts/j/0/bin/ssh") == "ssh");
  CHECK(remote_shell_called("pdsh") == "pdsh");
  for (const char* other : {"muster", "/usr/bin/muster", "sshd", "ssh/muster", ""}) {
    CHECK(remote_shell_called(other).empty());
  }
}

TEST_CASE("the door knows its nodes by name and address, and a command by the end of its ticket") {
  const RemoteDoor door{{"n1", "n2"}, {"10.0.0.1", "10.0.0.2"}, {8}};
  CHECK(hostfile_text(door) == "n1 slots=8\nn2 slots=1\n");
  CHECK(place_in(door, "n2") == 1);
  CHECK(place_in(door, "10.0.0.1") == 0);
  CHECK_FALSE(place_in(door, "n3"));
  CHECK_FALSE(place_in(door, ""));
  CHECK(ticket_number("job.0.n1.17") == 17);
  CHECK(ticket_number("3") == 3);
  for (const char* bad : {"", "job.", "j.0", "j.-5", "j. 5", "j.5x", "j.99999999999999999999"}) {
    CHECK_FALSE(ticket_number(bad));
  }
}

TEST_CASE("a path in node 0's copy of the code is one in the other node's") {
  const std::string marked = with_code_marked("cd /a/code-0; /a/code-0/run", "/a/code-0");
  CHECK(marked.find("/a/code-0") == std::string::npos);
  CHECK(with_code_at(marked, "/b/code-0") == "cd /b/code-0; /b/code-0/run");
}
