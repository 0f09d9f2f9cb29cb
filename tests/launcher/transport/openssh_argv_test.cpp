// The words that the ssh program is started with; ssh itself says what it makes of the paths.
#include <algorithm>

#include "launcher/transport/openssh_transport.h"
#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

using Strict = HostKeyPolicy::Strict;

struct Words {
  SshTarget target;
  SshSettings settings;
  ConnectSettings limits;

  Words() {
    target.node.host = "h1";
    settings.own_known_hosts = "/state/known_hosts";
  }
  std::vector<std::string> all() const { return openssh_argv(target, settings, limits); }
  // Value of an option; empty: it is not among them.
  std::string option(const std::string& name) const {
    const auto words = all();
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == "-o" && words[i + 1].starts_with(name + "=")) {
        return words[i + 1].substr(name.size() + 1);
      }
    }
    return "";
  }
  // The word behind a switch; empty: it is not among them.
  std::string behind(const std::string& option) const {
    const auto words = all();
    const auto found = std::find(words.begin(), words.end(), option);
    return found == words.end() ? "" : *std::next(found);
  }
};

TEST_CASE("unknown hosts are recorded, refused or let in, as the policy says, and where") {
  Words words;
  words.target.host_keys.files = {"/home/u/.ssh/known_hosts", "/etc/k"};
  const auto said = [&](Strict strict) {
    words.target.host_keys.strict = strict;
    return words.option("StrictHostKeyChecking") + " " + words.option("UserKnownHostsFile");
  };
  const std::string files = "\"/state/known_hosts\" \"/home/u/.ssh/known_hosts\" \"/etc/k\"";
  CHECK(said(Strict::pin) == "accept-new " + files);
  CHECK(said(Strict::known) == "yes " + files);
  CHECK(said(Strict::yes) == "yes ");  // the configuration's own files
  CHECK(said(Strict::no) == "no ");
}

TEST_CASE("nobody is asked, nothing is forwarded, and the limits are the target's") {
  Words words;
  words.limits.tcp_timeout = Milliseconds{7'000};
  words.limits.silence = Milliseconds{30'000};
  CHECK(words.option("BatchMode") == "yes");
  CHECK(words.option("ClearAllForwardings") == "yes");
  CHECK(words.option("ControlMaster") == "no");
  CHECK(words.option("RemoteCommand") == "none");
  CHECK(words.option("ConnectTimeout") == "7");
  CHECK(words.option("ServerAliveInterval") == "10");
}

TEST_CASE("what the cluster file says of a node is said to ssh, the rest is left to it") {
  Words words;
  for (const char* option : {"-l", "-p", "-i"}) CHECK(words.behind(option).empty());
  words.target.node.user = "ann";
  words.target.node.port = 2222;
  words.target.node.identity_file = "/k e y";
  CHECK(words.behind("-l") == "ann");
  CHECK(words.behind("-p") == "2222");
  CHECK(words.behind("-i") == "/k e y");
  words.target.node.host = "-oProxyCommand=id";
  const auto all = words.all();
  REQUIRE(all.size() > 2);
  CHECK(all.back() == "-oProxyCommand=id");
  CHECK(all[all.size() - 2] == "--");  // no option, whatever it is called
}

TEST_CASE("a path of any characters is one file to ssh") {
  Words words;
  const std::string odd = "/a b/\"quoted\"/back\\slash/#x";
  words.target.host_keys.files = {"/second file"};
  words.settings.own_known_hosts = odd + "/50%/%h";
  CHECK(words.option("UserKnownHostsFile") ==
        "\"/a b/\\\"quoted\\\"/back\\\\slash/#x/50%%/%%h\" \"/second file\"");
  if (run_here({"sh", "-c", "command -v ssh || true"}).empty()) {
    WARN("there is no ssh here: not asked");
    return;
  }
  words.settings.own_known_hosts = odd;
  std::vector<std::string> argv = words.all();
  argv.insert(argv.begin() + 1, {"-G", "-F", "/dev/null"});
  CHECK_THAT(run_here(argv), ContainsSubstring("userknownhostsfile " + odd + " /second file\n"));
}

}  // namespace
}  // namespace muster
