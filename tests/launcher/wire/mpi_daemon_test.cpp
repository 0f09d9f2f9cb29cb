#include "launcher/wire/mpi_daemon.h"

#include "tests/catch.h"

using namespace muster;

namespace {

// What mpirun of Open MPI 4.1.4 gives to its remote shell, words joined by blanks.
const std::string plain =
    " orted -mca orte_leave_session_attached \"1\" -mca ess \"env\" -mca ess_base_jobid "
    "\"517865472\" -mca ess_base_vpid 2 -mca ess_base_num_procs \"3\" -mca orte_node_regex "
    "\"vm,muster-node-[1:1],n-[1:2]@0(3)\" -mca orte_hnp_uri "
    "\"517865472.0;tcp://127.0.0.1:49881;tcp6://[fd00::2]:57733\" --mca plm_rsh_agent "
    "\"muster agent mpi-start\" --mca plm_rsh_no_tree_spawn \"1\" -mca plm \"rsh\" -mca pmix "
    "\"^s1,s2,cray,isolated\"";
const std::string paths =
    "          PATH=/usr/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/usr/lib:${LD_LIBRARY_PATH:-} ; "
    "export LD_LIBRARY_PATH ; DYLD_LIBRARY_PATH=/usr/lib:${DYLD_LIBRARY_PATH:-} ; export "
    "DYLD_LIBRARY_PATH ;   /usr/bin/orted -mca ess \"env\"";

// Of Open MPI 5.0.7, where the order of the parameters is any.
const std::string of_prte =
    "PRTE_PREFIX=/usr;export PRTE_PREFIX;LD_LIBRARY_PATH=/usr/lib:/usr/lib/x86_64-linux-gnu/pmix2/"
    "lib:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;DYLD_LIBRARY_PATH=/usr/lib:$DYLD_LIBRARY_PATH;"
    "export DYLD_LIBRARY_PATH;/usr/bin/prted --leave-session-attached --allow-run-as-root "
    "--prtemca ess \"env\" --prtemca ess_base_nspace \"prterun-vm-1817@0\" --prtemca "
    "ess_base_vpid 1 --prtemca prte_hnp_uri \"prterun-vm-1817@0.0;tcp://192.0.2.2,10.81.96.1:55533:"
    "24,22;tcp6://[fd00::2]:40679:64,24\" --prtemca plm_ssh_agent \"muster agent mpi-start --\" "
    "--prtemca PREFIXES \"errmgr,ess,filem\" --prtemca plm \"ssh\"";

std::string why_not(const std::string& command) {
  const auto daemon = read_mpi_daemon(command);
  return daemon ? "" : daemon.error().message;
}

}  // namespace

TEST_CASE("mpirun's daemon is taken apart word by word") {
  const auto daemon = read_mpi_daemon(plain);
  REQUIRE(daemon);
  CHECK(daemon->argv.front() == "orted");
  CHECK(daemon->argv[2] == "orte_leave_session_attached");
  CHECK(daemon->argv.back() == "^s1,s2,cray,isolated");
  CHECK(daemon->argv.size() == 34);
  CHECK(daemon->in_front.empty());
}

TEST_CASE("the paths that mpirun sets before its daemon are taken with it") {
  const auto daemon = read_mpi_daemon(paths);
  REQUIRE(daemon);
  CHECK(daemon->argv == std::vector<std::string>{"/usr/bin/orted", "-mca", "ess", "env"});
  CHECK(daemon->in_front.at("PATH") == "/usr/bin");
  CHECK(daemon->in_front.at("LD_LIBRARY_PATH") == "/usr/lib");
  const auto moved = read_mpi_daemon("OPAL_PREFIX=/opt/hpcx/ompi ; export OPAL_PREFIX;  " + paths);
  REQUIRE(moved);
  CHECK(moved->settings.at("OPAL_PREFIX") == "/opt/hpcx/ompi");
}

TEST_CASE("the daemon of a user whose login shell is sh is taken without the profile") {
  const std::string profile = "( test ! -r ./.profile || . ./.profile;";
  const auto daemon = read_mpi_daemon(profile + "  orted -mca ess \"env\" )");
  REQUIRE(daemon);
  CHECK(daemon->argv == std::vector<std::string>{"orted", "-mca", "ess", "env"});
  for (const std::string& other : {profile + " orted -mca ess env", profile + " id )",
                                   profile + " orted -mca ess env ) ; id )",
                                   std::string("( test ! -r ./x || . ./x; orted -mca ess env )")}) {
    INFO(other);
    CHECK_FALSE(read_mpi_daemon(other));
  }
}

TEST_CASE("the daemon of Open MPI 5 is known by its own names") {
  const auto daemon = read_mpi_daemon(of_prte);
  REQUIRE(daemon);
  CHECK(daemon->argv.front() == "/usr/bin/prted");
  CHECK(daemon->argv[3] == "--prtemca");
  CHECK(daemon->settings.at("PRTE_PREFIX") == "/usr");
  CHECK(daemon->in_front.at("LD_LIBRARY_PATH") == "/usr/lib:/usr/lib/x86_64-linux-gnu/pmix2/lib");
}

TEST_CASE("no other command passes for mpirun's daemon") {
  for (const std::string command :
       {"", "true", "sh -c id", "orted; id", "orted -mca ess env; id", "orted && id", "orted | id",
        "orted `id`", "orted $(id)", "orted -mca ess \"$(id)\"", "orted -mca ess \"`id`\"",
        "orted -mca ess env\nid", "orted > /tmp/x", "xorted -mca ess env", "/tmp/../bin/orted",
        "../orted", "bin/orted", "id ; orted", "PATH=/x:$PATH ; id ; orted",
        "PATH=/x:$PATH ; orted",
        "PATH=/x:$PATH ; export LD_PRELOAD ; orted", "LD_PRELOAD=/x ; export LD_PRELOAD ; orted",
        "PATH=/x:$LD_LIBRARY_PATH ; export PATH ; orted", "PATH ; export PATH ; orted",
        "PRTE_PREFIX=/x/../y;export PRTE_PREFIX;prted", "OPAL_PREFIX=/x ; export PATH ; orted",
        "PATH=/x:$PATH ;  ; orted", "PATH=/x:$PATH;export PATH", " ; export ; orted",
        "PATH=$(id):$PATH ; export PATH ; orted", "PATH=/x ; export PATH ; orted",
        "OPAL_PREFIX=x ; export OPAL_PREFIX; orted", "orted -mca ess \"env", "orted -mca ess",
        "orted -mca", "orted --hnp x", "xprted", "bin/prted", "/tmp/../prted",
        "LD_LIBRARY_PATH=/x:y:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;prted",
        "orted -mca ess \"env\"x", "orted \\id"}) {
    INFO(command);
    CHECK_THAT(why_not(command), ContainsSubstring("only mpirun's daemon (orted, prted)"));
  }
  CHECK(why_not("orted --tree-spawn -mca ess env") == "");
  CHECK_THAT(why_not("orted -mca ess " + std::string(130'000, 'x')), ContainsSubstring("too long"));
}

TEST_CASE("no parameter of the daemon names what is loaded or run") {
  for (const std::string parameter :
       {"plm_rsh_agent /tmp/x", "plm_rsh_agent \"sh -c id\"", "orte_launch_agent /tmp/x",
        "plm_ssh_agent /tmp/x", "prte_launch_agent /tmp/x",
        "orte_fork_agent /tmp/x", "mca_base_component_path /tmp/x", "mca_component_path /tmp/x",
        "mca_base_param_files /tmp/x", "a-b 1"}) {
    INFO(parameter);
    CHECK_FALSE(why_not("orted -mca " + parameter) == "");
  }
  CHECK(why_not("orted -mca plm_rsh_agent \"muster agent mpi-start\"") == "");
}

TEST_CASE("a parameter is refused when a part of its name says that it loads or runs something") {
  for (const std::string name :
       {"x_agent", "x_agent_y", "x_component_path", "x_param_files", "x_script", "x_script_y",
        "x_command", "plm_ssh_agent"}) {
    INFO(name);
    CHECK_THAT(why_not("orted -mca ess env --prtemca " + name + " /tmp/x"),
               ContainsSubstring("the parameter " + name));
  }
  for (const std::string harmless : {"plm_rsh_no_tree_spawn 1", "x_path /tmp/x",
                                     "plm_ssh_agent \"muster agent mpi-start --\""}) {
    INFO(harmless);
    CHECK(why_not("orted -mca " + harmless) == "");
  }
  // The shell of one Open MPI is none of the other's.
  CHECK_FALSE(why_not("orted -mca plm_rsh_agent \"muster agent mpi-start --\"") == "");
  CHECK_FALSE(why_not("orted -mca plm_ssh_agent \"muster agent mpi-start\"") == "");
}
