"""The versions of SQL Server that an instance can play, the oldest first."""

# ProductVersion of each version: the last service pack, or the first release where there are none.
PRODUCTS = {
    "2005": ("9.00.5000.00", "SQL Server 2005"),
    "2008": ("10.0.6000.29", "SQL Server 2008"),
    "2012": ("11.0.7001.0", "SQL Server 2012"),
    "2014": ("12.0.6024.0", "SQL Server 2014"),
    "2016": ("13.0.6300.2", "SQL Server 2016"),
    "2017": ("14.0.1000.169", "SQL Server 2017"),
    "2019": ("15.0.2000.5", "SQL Server 2019"),
    "2022": ("16.0.1000.6", "SQL Server 2022"),
    "2025": ("17.0.1000.7", "SQL Server 2025"),
}
NEWEST = list(PRODUCTS)[-1]


def product(version: str) -> tuple[str, str]:
    """SERVERPROPERTY('ProductVersion'), and the name in @@VERSION."""
    return PRODUCTS.get(version, (version, f"SQL Server {version}"))
