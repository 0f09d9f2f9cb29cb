#include "templates/nhc_conf.h"

#include <random>

#include "templates/nhc_arguments.h"
#include "templates/nhc_target.h"
#include "templates/profile/reader.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

// One profile from lines that are all for every node.
HealthProfile imported(const std::string& lines) {
  std::string text;
  std::string rest = lines;
  while (!rest.empty()) {
    const std::string line = rest.substr(0, rest.find('\n'));
    rest.erase(0, std::min(rest.size(), line.size() + 1));
    text += "* || " + line + "\n";
  }
  const NhcImport import = import_nhc_conf(text);
  for (const NhcSkippedLine& line : import.skipped) FAIL(line.text + ": " + line.why);
  REQUIRE(import.fragments.size() == 1);
  return import.fragments[0].profile;
}

// Why the only line is skipped; empty when it is not.
std::string why_skipped(const std::string& line) {
  const NhcImport import = import_nhc_conf(line + "\n");
  if (import.skipped.empty()) return "";
  CHECK(import.skipped.size() == 1);
  CHECK(import.skipped[0].line == 1);
  return import.skipped[0].why;
}

bool holds(const std::string& target, const std::string& host) {
  const auto parsed = NhcTarget::parse(target);
  INFO(target);
  REQUIRE(parsed);
  return parsed->holds(host);
}

CheckMode mode_of(const HealthProfile& profile, const std::string& check) {
  INFO(check);
  REQUIRE(profile.checks.count(check) == 1);
  return profile.checks.at(check).mode.value_or(CheckMode::off);
}

// Azure/azurehpc-health-checks conf/nd96isr_h200_v5.conf, shortened.
const std::string azure_h200 = R"(# NHC Configuration File
 * || check_hw_cpuinfo 2 96 96
 * || check_hw_physmem 1909409116kB 1909409116kB 3%
 * || check_hw_swap 0kB 0kB 3%
 * || check_hw_ib 100 mlx5_an0:1
 * || check_hw_ib 400 mlx5_ib0:1
 * || check_hw_ib 400 mlx5_ib1:1
 * || check_hw_eth eth0
 * || check_hw_eth ib0
 * || check_hw_topology
 * || check_nvme_count 8

 * || check_gpu_count 8
 * || check_nvsmi_healthmon
 * || check_gpu_xid
 * || check_gpu_bw 48 335
 * || check_gpu_ecc 20000000 10000
 * || check_gpu_clock_throttling
 * || check_nccl_allreduce 431.0 1 16G $AZ_NHC_ROOT/topofiles/ndv5-topo.xml
 * || check_nvlink_status

 * || check_ib_bw_gdr 360
 * || check_ib_link_flapping 6
)";

}  // namespace

TEST_CASE("a file of Azure's becomes a profile, and says what it leaves out") {
  const NhcImport import = import_nhc_conf(azure_h200);
  REQUIRE(import.fragments.size() == 1);
  CHECK(import.fragments[0].target == "*");
  const HealthProfile& profile = import.fragments[0].profile;
  CHECK(profile.host.cpus == 96);
  CHECK(profile.host.mem_kb == 1909409116);
  CHECK(profile.host.mem_tolerance_pct == 3);
  CHECK(profile.host.swap_kb == 0);
  CHECK(profile.host.nvmes == 8);
  CHECK(profile.ib.ports == std::vector<std::string>{"mlx5_ib0:1", "mlx5_ib1:1"});
  CHECK(profile.ib.rate_gbps == 400);
  CHECK(profile.gpu.count == 8);
  CHECK(profile.floors == std::map<std::string, double>{{"h2d_gb_per_s", 48},
                                                        {"p2p_gb_per_s", 335},
                                                        {"allreduce8_gb_per_s", 431},
                                                        {"ib_write_bw_gbps", 360}});
  for (const char* check : {"ib.state", "ib.phys", "ib.rate", "ib.netdev", "host.net", "gpu.xid",
                            "gpu.nvlink_active", "ib.flap", "gpu.ecc_sbe"}) {
    CHECK(mode_of(profile, check) == CheckMode::enforce);
  }
  std::vector<int> lines;
  for (const NhcSkippedLine& line : import.skipped) lines.push_back(line.line);
  CHECK(lines == std::vector<int>{5, 10, 14, 18});
  CHECK_THAT(import.skipped[0].why, ContainsSubstring("one rate, here 400 Gb/s"));
  CHECK_THAT(import.skipped[0].text, ContainsSubstring("mlx5_an0"));
  CHECK_THAT(import.skipped[1].why, ContainsSubstring("'check_hw_topology'"));
  CHECK_THAT(import.notes.at(0), ContainsSubstring("line 2: "));
  CHECK_THAT(import.notes.at(1), ContainsSubstring("line 5: ib.rate passes a port of at least"));
}

TEST_CASE("what is imported can be written and read") {
  const HealthProfile profile = import_nhc_conf(azure_h200).fragments.at(0).profile;
  const auto file = read_health_profile("nhc.yml", write_health_profile(profile), {});
  INFO(printed(file.findings));
  CHECK(file.findings.empty());
  CHECK(file.profile == profile);
}

TEST_CASE("memory is a middle and a tolerance") {
  const auto host = [](const std::string& line) { return imported(line).host; };
  CHECK(host("check_hw_physmem 32gb 32gb 5%").mem_kb == 32LL << 20);
  CHECK(host("check_hw_physmem 32gb 32gb 5%").mem_tolerance_pct == 5);
  CHECK(host("check_hw_physmem 1024 1024").mem_kb == 1024);
  CHECK(host("check_hw_physmem 1024 1024").mem_tolerance_pct == 0);
  CHECK(host("check_hw_physmem 900 1100").mem_kb == 1000);
  CHECK(host("check_hw_physmem 900 1100 2%").mem_tolerance_pct == Approx(12));
  CHECK(host("check_hw_physmem 1M 1M 512k").mem_tolerance_pct == Approx(50));
  CHECK(host("check_hw_physmem 0 32T").mem_tolerance_pct == 100);
}

TEST_CASE("file systems") {
  const HealthProfile profile = imported(
      "check_fs_mount_rw -f / -t ext4\n"
      "check_fs_mount -s bluearc0:/home -t nfs -o '/(^|,)vers=3(,|$)/' -f /home\n"
      "check_fs_mount_ro /opt nfs0:/opt nfs\n"
      "check_fs_mount -f /home -f /work /data\n"
      "check_fs_free / 5%\n"
      "check_fs_free /scratch 2GB\n"
      "check_fs_ifree /scratch 5%");
  CHECK(profile.host.mounts == std::vector<std::string>{"/", "/home", "/opt", "/work", "/data"});
  CHECK(mode_of(profile, "host.ro") == CheckMode::enforce);
  CHECK(is_excluded(profile, "host.ro", "/opt"));
  CHECK(profile.host.free_pct == 5);
  CHECK(profile.host.free_mb == 2048);
  CHECK(profile.host.disks == std::vector<std::string>{"/", "/tmp", "/scratch"});
  CHECK(imported("check_fs_free / 5%").host.free_mb == 0);
  CHECK(imported("check_fs_free / 600M").host.free_mb == 600);
  CHECK(imported("check_fs_free / 1k").host.free_mb == 1);
  CHECK(imported("check_fs_free / 600M").host.free_pct == 0);
}

TEST_CASE("programs, GPUs and floors") {
  const HealthProfile profile = imported(
      "check_ps_service -u root -S sshd\n"
      "check_ps_service -d rpc.statd -r nfslock\n"
      "check_ps_daemon munged munge\n"
      "check_hw_mcelog\n"
      "check_nccl_allreduce 208 1 16G  # two of them\n"
      "check_gpu_count 2\n"
      "check_ib_bw_non_gdr 78 65536\n"
      "check_cpu_stream 665500");
  CHECK(profile.host.services == std::vector<std::string>{"sshd", "rpc.statd", "munged"});
  CHECK(mode_of(profile, "host.edac") == CheckMode::enforce);
  CHECK(profile.floors.at("allreduce2_gb_per_s") == 208);
  CHECK(profile.floors.at("ib_write_bw_host_gbps") == 78);
  CHECK(profile.floors.at("stream_mb_per_s") == 665500);
  CHECK(imported("check_nccl_allreduce 460").floors.count("allreduce8_gb_per_s") == 1);
  CHECK(imported("check_hw_ib 56 mlx4_0").ib.ports == std::vector<std::string>{"mlx4_0:*"});
  CHECK(imported("check_hw_ib 40").ib.ports == std::vector<std::string>{"*"});
}

TEST_CASE("a line that a profile cannot say is skipped with its reason") {
  struct Row {
    const char* line;
    const char* why;
  };
  const Row rows[] = {
      {"* || export NHC_RM=pbs", "a shell command"},
      {"* || MARK_OFFLINE=1", "a shell command"},
      {"* || check_hw_ib 40; reboot", "a shell command"},
      {"* || check_hw_ib 40 && echo", "a shell command"},
      {"* || check_hw_ib 40 > /dev/null", "a shell command"},
      {"* || $CHECK 40", "a shell command"},
      {"* || check_ps_loadavg $((2*HW_CORES))", "'check_ps_loadavg'"},
      {"* || check_hw_ib $RATE", "expected a rate"},
      {"* || check_hw_ib `cat rate`", "expected a rate"},
      {"* || check_hw_ib 0", "expected a rate"},
      {"* || check_hw_ib 40 mlx5/0", "expected a device"},
      {"* || check_hw_ib 40 mlx5_0:x", "expected a device"},
      {"* || check_hw_bi 40", "did you mean 'check_hw_ib'?"},
      {"* || check_hw_physmem 32gb", "the least and the most memory"},
      {"* || check_hw_physmem 2g 1g", "the least and the most memory"},
      {"* || check_hw_physmem 1g 1g lots", "the least and the most memory"},
      {"* || check_hw_physmem -1 1g", "the least and the most memory"},
      {"* || check_hw_physmem 9999999999999999p 9999999999999999p", "the least and the most"},
      {"* || check_hw_swap 1g 2g", "not a range"},
      {"* || check_hw_swap 8g 8g 3%", "not a range"},
      {"* || check_hw_cpuinfo 2 96", "sockets, cores and threads"},
      {"* || check_hw_eth ../../etc", "the name of an interface"},
      {"* || check_fs_mount", "expected an absolute path"},
      {"* || check_fs_mount -f home", "expected an absolute path"},
      {"* || check_fs_mount -f $HOME", "expected an argument"},
      {"* || check_fs_mount -Z -f /home", "unknown option '-Z'"},
      {"* || check_fs_mount -f", "expected an argument"},
      {"* || check_fs_free / lots", "a path and what is free"},
      {"* || check_fs_free / 101%", "a path and what is free"},
      {"* || check_fs_ifree / 1k", "by their share"},
      {"* || check_ps_service -k -m '*evil'", "nothing is stopped or killed"},
      {"* || check_ps_service -m '/x/' -f y", "not patterns"},
      {"* || check_ps_service", "the name of a service"},
      {"* || check_gpu_count 8 rocm", "NVIDIA"},
      {"* || check_gpu_count many", "the number of GPUs"},
      {"* || check_gpu_ecc 5", "errors of DRAM and of SRAM"},
      {"* || check_gpu_bw nan", "expected a positive number"},
      {"* || check_gpu_bw 0", "expected a positive number"},
      {"* || check_cpu_stream", "expected a positive number"},
      {"* || check_dmi_data_match \"BIOS: 1", "not closed"},
      {"* || check_x 'a", "not closed"},
      {"* || check_x \\", "not closed"},
      {"* || check_x $(a", "not closed"},
      {"check_hw_ib 40", "expected <target> || <check>"},
      {"|| check_hw_ib 40", "expected a target"},
      {"* ||", "expected a check"},
      {"* || # nothing", "expected a check"},
      {"{n[1-2 || check_gpu_xid", ""},  // a glob with a brace in it
      {"{n[1-2],m[} || check_gpu_xid", "expected a host or a range"},
      {"{n[1,3]} || check_gpu_xid", "expected a host or a range"},
      {"{} || check_gpu_xid", "expected a host or a range"},
      {"/n(/ || check_gpu_xid", "not a target: '/n(/': "},
      {"! || check_gpu_xid", "the target is empty"},
      {"n[[:digit:]] || check_gpu_xid", "are not read"},
      {"* || check_gpu_xid \x01", "not a line of text"},
      {"* || check_gpu_xid \xff", "not a line of text"},
  };
  for (const Row& row : rows) {
    INFO(row.line);
    const std::string why = why_skipped(row.line);
    if (*row.why == '\0') {
      CHECK(why.empty());
    } else {
      CHECK_THAT(why, ContainsSubstring(row.why));
    }
  }
}

TEST_CASE("limits that differ by file system are not mixed up") {
  const NhcImport import =
      import_nhc_conf("* || check_fs_free / 5%\n* || check_fs_free /tmp 20%\n");
  REQUIRE(import.skipped.size() == 1);
  CHECK(import.skipped[0].line == 2);
  CHECK(import.fragments.at(0).profile.host.free_pct == 5);
}

TEST_CASE("a floor for a number of GPUs that has none is skipped at its line") {
  const NhcImport import =
      import_nhc_conf("* || check_gpu_count 3\n\n* || check_nccl_allreduce 100\n");
  REQUIRE(import.skipped.size() == 1);
  CHECK(import.skipped[0].line == 3);
  CHECK_THAT(import.skipped[0].text, ContainsSubstring("check_nccl_allreduce 100"));
}

TEST_CASE("options of a check are read as getopts reads them") {
  const auto read = [](const std::vector<std::string>& texts) {
    std::vector<NhcWord> words;
    for (const std::string& text : texts) words.push_back({text, text.starts_with('$')});
    return nhc_options(words, "0rE:f:o:");
  };
  using Texts = std::vector<std::string>;
  using Given = std::map<char, Texts>;
  const NhcOptions apart = read({"-0", "-f", "5", "-o", "a", "-o", "b", "x", "-r"});
  CHECK(apart.error.empty());
  CHECK(apart.given == Given{{'0', {""}}, {'f', {"5"}}, {'o', {"a", "b"}}});
  CHECK(apart.rest == Texts{"x", "-r"});
  const NhcOptions together = read({"-0rf5", "--", "-x"});
  CHECK(together.error.empty());
  CHECK(together.given == Given{{'0', {""}}, {'r', {""}}, {'f', {"5"}}});
  CHECK(together.rest == Texts{"-x"});
  CHECK(read({"-", "-r"}).rest == Texts{"-", "-r"});
  CHECK(read({}).given.empty());
  CHECK_THAT(read({"-q"}).error, ContainsSubstring("unknown option '-q'"));
  CHECK_THAT(read({"-r:"}).error, ContainsSubstring("unknown option '-r:'"));
  CHECK_THAT(read({"-r", "-f"}).error, ContainsSubstring("expected an argument of '-f'"));
  CHECK_THAT(read({"-f", "$x"}).error, ContainsSubstring("expected an argument of '-f'"));
}

TEST_CASE("a count of NVMe devices is a whole number, or the line is skipped") {
  CHECK(import_nhc_conf("* || check_nvme_count 0\n").fragments.at(0).profile.host.nvmes == 0);
  for (const char* wrong : {"", "x", "-1", "1.5", "$N"}) {
    CAPTURE(wrong);
    const NhcImport import = import_nhc_conf(std::string("* || check_nvme_count ") + wrong + "\n");
    REQUIRE(import.skipped.size() == 1);
    CHECK_THAT(import.skipped[0].why, ContainsSubstring("expected the number of NVMe devices"));
  }
}

TEST_CASE("targets are globs, regular expressions, ranges and their opposite") {
  CHECK(holds("*", "n1"));
  CHECK(holds("n?", "n1"));
  CHECK_FALSE(holds("n?", "n12"));
  CHECK(holds("n[1-3]", "n2"));
  CHECK_FALSE(holds("n[!1-3]", "n2"));
  CHECK(holds("n[^1-3]", "n4"));
  CHECK(holds("n.x", "n.x"));
  CHECK_FALSE(holds("n.x", "nyx"));
  CHECK(holds("n[1", "n[1"));
  CHECK(holds("/^n[0-9]+$/", "n17"));
  CHECK_FALSE(holds("/^n[0-9]+$/", "m17"));
  CHECK(holds("/17/", "n17x"));
  CHECK(holds("!login*", "n1"));
  CHECK_FALSE(holds("!login*", "login2"));
  CHECK(holds("!/^m/", "n1"));
  CHECK(holds("{n[01-20],m03}", "n01"));
  CHECK(holds("{n[01-20],m03}", "n20"));
  CHECK(holds("{n[01-20],m03}", "m03"));
  CHECK_FALSE(holds("{n[01-20],m03}", "n1"));
  CHECK_FALSE(holds("{n[01-20],m03}", "n21"));
  CHECK_FALSE(holds("{n[01-20],m03}", "m3"));
  CHECK_FALSE(holds("{n[01-20],m03}", "n0x"));
  for (const char* host : {"a1", "b", "c3"}) CHECK(holds("{a[1-2],b,c[3-4]}", host));
  for (const char* wrong : {"{a,}", "{,a}", "{a,b[}", "{a[1-2,b}", "{}"}) {
    CAPTURE(wrong);
    CHECK_FALSE(NhcTarget::parse(wrong));
  }
  CHECK(holds("{n[20-01].site}", "n07.site"));
  CHECK_FALSE(holds("!{n[01-20]}", "n07"));
  CHECK_FALSE(holds("{n[1-20]}", "n7"));  // the width is that of the longer end
  CHECK(holds("{n[1-20]}", "n07"));
}

TEST_CASE("each target has its fragment, and a host the lines that are for it") {
  const std::string text =
      "\xEF\xBB\xBF* || check_hw_swap 0 0\r\n"
      "{n[01-20]} || check_gpu_count 8\r\n"
      "!{n[01-20]}||check_gpu_count 4\r\n"
      "\t # comment\r\n"
      "* || check_fs_mount /home\r\n"
      "{n[01-20]} || check_fs_mount /scratch";
  const NhcImport all = import_nhc_conf(text);
  CHECK(all.skipped.empty());
  REQUIRE(all.fragments.size() == 3);
  CHECK(all.fragments[0].target == "*");
  CHECK(all.fragments[0].profile.name == "nhc-1");
  CHECK(all.fragments[0].profile.host.mounts == std::vector<std::string>{"/home"});
  CHECK(all.fragments[1].profile.gpu.count == 8);
  CHECK(all.fragments[2].target == "!{n[01-20]}");
  CHECK(all.fragments[2].profile.gpu.count == 4);
  const NhcImport one = import_nhc_conf_for(text, "n07");
  REQUIRE(one.fragments.size() == 1);
  CHECK(one.fragments[0].profile.name == "nhc");
  CHECK(one.fragments[0].profile.host.mounts == std::vector<std::string>{"/home", "/scratch"});
  CHECK(one.fragments[0].profile.gpu.count == 8);
  CHECK(import_nhc_conf_for(text, "login").fragments[0].profile.gpu.count == 4);
}

TEST_CASE("files that are too large, empty or no text") {
  CHECK(import_nhc_conf("").fragments.empty());
  CHECK(import_nhc_conf("\n\n# x\n").skipped.empty());
  CHECK_THAT(import_nhc_conf(std::string(2 << 20, '#')).skipped.at(0).why,
             ContainsSubstring("larger than 1 MiB"));
  const NhcImport many = import_nhc_conf(std::string(20000, '\n'));
  CHECK_THAT(many.skipped.at(0).why, ContainsSubstring("more than 10000 lines"));
  const NhcImport binary =
      import_nhc_conf(std::string("\0\x7f"
                                  "ELF || check_gpu_xid\n",
                                  23));
  REQUIRE(binary.skipped.size() == 1);
  CHECK(binary.fragments.empty());
  const NhcImport wide = import_nhc_conf("* || check_x " + std::string(100000, '('));
  CHECK(wide.skipped.at(0).text.size() < 200);
}

TEST_CASE("no text makes the import of nhc.conf fail") {
  std::mt19937 random(20260302);
  const std::string letters = "|*/{}[]!$()'\"\\#;& \n\t-%.0189nmkMG\x80\xff";
  for (int round = 0; round < 2000; ++round) {
    std::string text = azure_h200;
    for (int change = static_cast<int>(random() % 10); change >= 0; --change) {
      const std::size_t at = random() % text.size();
      std::string with;
      for (std::size_t i = random() % 4; i > 0; --i) with += letters[random() % letters.size()];
      text.replace(at, random() % 6, with);
    }
    const NhcImport import = import_nhc_conf(text);
    for (const NhcFragment& fragment : import.fragments) {
      const std::string written = write_health_profile(fragment.profile);
      const auto file = read_health_profile("nhc.yml", written, {});
      INFO(text << written << printed(file.findings));
      REQUIRE(file.findings.empty());
      REQUIRE(file.profile == fragment.profile);
    }
    import_nhc_conf_for(text, "n07");
  }
}

}  // namespace muster
