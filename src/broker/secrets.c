/* Names of secrets: see secrets.h. One list of whole names, one of names that mean something below a certain directory, one of
 * endings. */
#define _GNU_SOURCE
#include "broker/secrets.h"
#include <string.h>

static const char *const whole[] = {
    /* keys and tools that keep keys */
    ".ssh", ".gnupg", ".password-store", ".vault-token", ".pki", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk",
    "id_ed25519_sk", "ssh_host_rsa_key", "ssh_host_dsa_key", "ssh_host_ecdsa_key", "ssh_host_ed25519_key",
    /* clouds and containers */
    ".aws", ".azure", ".kube", "kubeconfig", ".docker", ".dockercfg", ".boto", ".s3cfg", ".terraformrc", "terraform.tfstate",
    "terraform.tfstate.backup", "service-account.json", "application_default_credentials.json", "credentials.db", "access_tokens.db",
    /* registries, package managers, services */
    ".netrc", "_netrc", ".npmrc", ".pypirc", "pip.conf", "pip.ini", ".git-credentials", ".pgpass", ".my.cnf", ".mylogin.cnf", ".htpasswd",
    "credentials.json", "kaggle.json", "auth.json", ".dbshell",
    /* settings */
    ".env", ".envrc", "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml",
    /* what was typed */
    ".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".histfile", "fish_history", ".python_history", ".psql_history",
    ".mysql_history", ".sqlite_history", ".node_repl_history", ".rediscli_history", ".irb_history", ".lesshst", ".viminfo",
    /* browsers and mail */
    ".mozilla", ".thunderbird", "logins.json", "key4.db", "cookies.sqlite", "login data",
};

static const char *const below[][2] = { /* directory, name in it */
    { ".cargo", "credentials" }, { ".cargo", "credentials.toml" }, { ".gem", "credentials" }, { ".m2", "settings.xml" },
    { ".gradle", "gradle.properties" }, { ".config", "gcloud" }, { ".config", "gh" }, { ".config", "hub" }, { ".config", "glab-cli" },
    { ".config", "rclone" }, { ".config", "op" }, { ".config", "google-chrome" }, { ".config", "chromium" },
    { ".config", "bravesoftware" }, { ".config", "microsoft-edge" }, { ".config", "doctl" }, { ".config", "helm" }, { "git", "credentials" },
    { ".huggingface", "token" }, { "huggingface", "token" }, { "share", "keyrings" }, { ".local", "keyrings" },
};

static const char *const endings[] = { ".pem", ".key", ".p12", ".pfx", ".jks", ".kdbx", ".keystore", ".ppk", ".ovpn" };

static bool same(const char *text, const char *name, size_t size)
{
    return strlen(text) == size && !strncasecmp(text, name, size);
}

static bool is_secret(const char *parent, size_t parent_size, const char *name, size_t size)
{
    for (size_t i = 0; i < ARRAY_COUNT(whole); i++)
        if (same(whole[i], name, size))
            return true;
    for (size_t i = 0; i < ARRAY_COUNT(below); i++)
        if (same(below[i][1], name, size) && same(below[i][0], parent, parent_size))
            return true;
    if (size > 5 && !strncasecmp(name, ".env.", 5)) {
        /* templates are meant to be read */
        static const char *const open_ones[] = { "example", "sample", "template", "dist" };
        for (size_t i = 0; i < ARRAY_COUNT(open_ones); i++)
            if (same(open_ones[i], name + 5, size - 5))
                return false;
        return true;
    }
    for (size_t i = 0; i < ARRAY_COUNT(endings); i++) {
        size_t n = strlen(endings[i]);
        if (size > n && same(endings[i], name + size - n, n))
            return true;
    }
    return false;
}

int secret_path(const char *path) { return secret_path_in("", path); }

int secret_path_in(const char *parent, const char *path)
{
    size_t parent_size = strlen(parent);
    if (*path == '/')
        path++;
    if (!*path)
        return 0;
    for (const char *p = path;;) {
        const char *end = strchrnul(p, '/');
        if (is_secret(parent, parent_size, p, end - p))
            return *end ? -1 : 1;
        if (!*end)
            return 0;
        parent = p;
        parent_size = end - p;
        p = end + 1;
    }
}

bool secret_holder(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < ARRAY_COUNT(below); i++)
        if (below[i][0][0] == '.' && same(below[i][0], name, strlen(name)))
            return true;
    return false;
}
