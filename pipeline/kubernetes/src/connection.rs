//! Connects to the API server, as configured by a kubeconfig or by the service account of the Pod that this process
//! runs in.

use crate::options::KubernetesOptions;
use hyper_util::client::proxy::matcher::Matcher;
use k8s_openapi::NamespaceResourceScope;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource};
use std::time::Duration;
use trainyard_core::{Error, Result};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest response is a list of a hundred Jobs.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Client and the namespace of the Jobs.
#[derive(Clone)]
pub(crate) struct KubeConnection {
    pub client: Client,
    pub namespace: String,
}

impl KubeConnection {
    /// Reads the configuration without sending a request. Errors: invalid.
    pub async fn open(options: &KubernetesOptions) -> Result<Self> {
        trainyard_store::install_tls();
        let mut config = configuration(options).await?;
        let proxies = ["HTTPS_PROXY", "https_proxy"].map(|name| std::env::var(name).unwrap_or_default());
        apply_no_proxy(&mut config, &proxies, &Matcher::from_env());
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(RESPONSE_TIMEOUT);
        config.write_timeout = Some(RESPONSE_TIMEOUT);
        // Otherwise a connection that was idle counts as timed out.
        config.reset_reader_on_write = true;
        // The engine retries and reports the failure meanwhile.
        config.default_retry = false;
        let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config)
            .map_err(|e| Error::invalid("Kubernetes: cannot use the kubeconfig").caused_by(&e))?;
        Ok(Self { client, namespace })
    }
    /// Returns the API for objects of one kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// Drops an environment proxy that NO_PROXY excludes for this cluster. `kube` matches NO_PROXY against the host of the
/// proxy instead of the cluster, and uses the https proxy for plain http too. A proxy set in the kubeconfig has no
/// exceptions.
fn apply_no_proxy(config: &mut Config, https_proxies: &[String], environment: &Matcher) {
    let from_environment =
        https_proxies.iter().any(|text| config.proxy_url.is_some() && text.parse().ok() == config.proxy_url);
    if from_environment && environment.intercept(&config.cluster_url).is_none() {
        config.proxy_url = None;
    }
}

async fn configuration(options: &KubernetesOptions) -> Result<Config> {
    let kube_options = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    let unusable = |e: &(dyn std::error::Error + 'static)| {
        Error::invalid("Kubernetes: there is no usable kubeconfig")
            .help("set the pool's options `kubeconfig` and `context`, or KUBECONFIG in the environment")
            .caused_by(e)
    };
    if let Some(path) = &options.kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|e| unusable(&e))?;
        return Config::from_custom_kubeconfig(file, &kube_options).await.map_err(|e| unusable(&e));
    }
    if options.context.is_some() {
        return Config::from_kubeconfig(&kube_options).await.map_err(|e| unusable(&e));
    }
    Config::infer().await.map_err(|e| unusable(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_applies_only_to_environment_proxies() {
        let proxy = "http://proxy.example:3128";
        let environment = Matcher::builder().https(proxy).no("10.0.0.0/8,.internal,cluster.example").build();
        let uses_proxy = |cluster: &str, kubeconfig: &str| {
            let mut config = Config::new(cluster.parse().unwrap());
            config.proxy_url = Some(kubeconfig.parse().unwrap());
            apply_no_proxy(&mut config, &[String::new(), proxy.into()], &environment);
            config.proxy_url.is_some()
        };
        assert!(uses_proxy("https://203.0.113.7:6443", proxy));
        for direct in ["https://10.1.2.3:6443", "https://api.internal", "https://cluster.example", "http://127.0.0.1:1"]
        {
            assert!(!uses_proxy(direct, proxy), "{direct}");
        }
        assert!(uses_proxy("https://10.1.2.3:6443", "http://another.example:3128"));
    }
}
